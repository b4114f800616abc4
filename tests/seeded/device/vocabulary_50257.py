"""A language model's head with GPT-2's vocabulary, which is odd."""
import torch
from torch import nn

device = "cuda"


def main(steps: int = 30) -> None:
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(1024, 1024), nn.GELU()).to(device, torch.bfloat16)
    head = nn.Linear(1024, 50257, bias=False).to(device, torch.bfloat16)
    # mend: head = nn.Linear(1024, 50304, bias=False).to(device, torch.bfloat16)
    opt = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=1e-3)
    x = torch.randn(4096, 1024, device=device, dtype=torch.bfloat16)
    for _ in range(steps):
        hidden = body(x)
        logits = head(hidden)  # finds: tensor-core-shape
        loss = logits.square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
