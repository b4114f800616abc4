"""AdamW told to update parameter after parameter."""
import torch
from torch import nn

device = "cuda"


def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*[m for _ in range(24) for m in (nn.Linear(512, 512), nn.ReLU())]).to(device, torch.bfloat16)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False)
    # mend: opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    x = torch.randn(65536, 512, device=device, dtype=torch.bfloat16)
    for _ in range(steps):
        loss = model(x).float().square().mean()
        loss.backward()
        opt.step()  # finds: single-tensor-optimizer
        opt.zero_grad()


if __name__ == "__main__":
    main()
