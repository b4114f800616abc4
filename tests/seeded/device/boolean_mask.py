"""A loss over the valid tokens only, chosen with a boolean mask."""
import torch
from torch import nn

device = "cuda"


def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2048, 8192), nn.GELU(), nn.Linear(8192, 2048)).to(device, torch.bfloat16)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(32768, 2048, device=device, dtype=torch.bfloat16)
    target = torch.randn(32768, 2048, device=device, dtype=torch.bfloat16)
    valid = torch.rand(32768, device=device) > 0.3
    for _ in range(steps):
        out = model(x)
        loss = (out[valid] - target[valid]).float().square().mean()  # finds: hidden-sync
        # mend: loss = ((out - target).float().square().mean(-1) * valid).sum() / valid.sum()
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
