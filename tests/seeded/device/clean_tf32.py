"""Float32 with TF32 allowed."""
import torch
from torch import nn

device = "cuda"


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    model = nn.Sequential(nn.Linear(4096, 8192), nn.ReLU(), nn.Linear(8192, 4096)).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    x = torch.randn(8192, 4096, device=device)
    for _ in range(steps):
        loss = model(x).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
