"""Features that arrive from NumPy as float64 and stay so."""
import numpy as np
import torch
from torch import nn

device = "cuda"


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    weights = torch.from_numpy(np.random.default_rng(0).random((8192, 2048))).to(device)
    # mend: weights = torch.from_numpy(np.random.default_rng(0).random((8192, 2048))).to(device, torch.float32)
    model = nn.Sequential(nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 2048)).to(device, torch.bfloat16)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(8192, 2048, device=device, dtype=torch.bfloat16)
    for _ in range(steps):
        out = model(x)
        loss = (out * weights).square().mean()  # finds: float64
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
