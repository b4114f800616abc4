"""The head's vocabulary is padded to a multiple of 64."""
import torch
from torch import nn

device = "cuda"


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)).to(device, torch.bfloat16)
    head = nn.Linear(1024, 50304, bias=False).to(device, torch.bfloat16)
    opt = torch.optim.AdamW([*body.parameters(), *head.parameters()], lr=1e-4, fused=True)
    x = torch.randn(8192, 1024, device=device, dtype=torch.bfloat16)
    y = torch.randint(50257, (8192,), device=device)
    for _ in range(steps):
        loss = nn.functional.cross_entropy(head(body(x)), y)
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
