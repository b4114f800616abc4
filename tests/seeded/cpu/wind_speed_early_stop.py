"""Wind speed from weather grids, stopped when the loss no longer falls; the best loss is kept as a tensor."""
import torch
from torch import nn


class Stopper:
    def __init__(self, patience=10_000):
        self.best, self.since, self.patience = torch.tensor(float("inf")), 0, patience

    def __call__(self, loss):
        self.best = min(self.best, loss)  # finds: hidden-sync
        self.since += 1
        return self.since > self.patience


def main(steps=40):
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(6, 24, 3, padding=1), nn.SiLU(),
        nn.Conv2d(24, 24, 3, padding=1), nn.SiLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(24 * 16, 12))
    opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, fused=True)
    enough = Stopper()
    for _ in range(steps):
        grid, speed = torch.randn(16, 6, 32, 32), torch.rand(16, 12)
        loss = nn.functional.smooth_l1_loss(net(grid), speed)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if enough(loss.detach()):
            break


if __name__ == "__main__":
    main()
