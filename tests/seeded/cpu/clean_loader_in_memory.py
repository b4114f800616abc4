"""A loader over a tensor that is already there."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(1024, 512)), batch_size=None, sampler=torch.arange(1024).view(-1, 128).tolist())
    model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512))
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    done = 0
    while done < steps:
        for (x,) in loader:
            loss = (model(x) - x).square().mean()
            loss.backward()
            opt.step()
            opt.zero_grad()
            done += 1


if __name__ == "__main__":
    main()
