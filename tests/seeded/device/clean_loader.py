"""Pinned batches from workers, copied without blocking."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = "cuda"


def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(2048, 1024))
    loader = DataLoader(data, batch_size=256, num_workers=4, persistent_workers=True, pin_memory=True)
    model = nn.Sequential(nn.Linear(1024, 16384), nn.GELU(), nn.Linear(16384, 16384), nn.GELU(), nn.Linear(16384, 1024))
    model = model.to(device, torch.bfloat16)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    done = 0
    while done < steps:
        for (x,) in loader:
            x = x.to(device, non_blocking=True).to(torch.bfloat16).repeat_interleave(16, dim=0)
            loss = (model(x) - x).float().square().mean()
            loss.backward()
            opt.step()
            opt.zero_grad()
            done += 1


if __name__ == "__main__":
    main()
