"""Features come from NumPy in double precision."""
import numpy as np
import torch
from torch import nn


def main(steps: int = 50) -> None:
    torch.manual_seed(0)
    table = torch.from_numpy(np.random.default_rng(0).random((2048, 512)))
    # mend: table = torch.from_numpy(np.random.default_rng(0).random((2048, 512))).float()
    model = nn.Linear(512, 512)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(2048, 512)
    for _ in range(steps):
        out = model(x)
        loss = (out * table).square().mean()  # finds: float64
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
