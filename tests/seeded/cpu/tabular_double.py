"""A table from NumPy is double, and the model was made to fit."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Tabular(nn.Module):
    def __init__(self, columns: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(columns)
        self.net = nn.Sequential(nn.Linear(columns, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(self.norm(x)).squeeze(1)  # finds: float64


def main(steps: int = 40) -> None:
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    table = rng.normal(size=(4096, 64))
    # mend: table = rng.normal(size=(4096, 64)).astype(np.float32)
    target = table[:, :8].sum(1) > 0
    data = TensorDataset(torch.from_numpy(table), torch.from_numpy(target.astype(table.dtype)))
    model = Tabular(64).to(torch.from_numpy(table).dtype)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    step = 0
    while step < steps:
        for x, y in DataLoader(data, batch_size=512):  # may: data-loading
            loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1


if __name__ == "__main__":
    main()
