"""RMSprop over the tensors of a deep, narrow network."""
import torch
from torch import nn


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for _ in range(16):
        layers += [nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU()]
    net = nn.Sequential(*layers)
    optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-3, momentum=0.9)
    x = torch.randn(64, 64)
    for _ in range(steps):
        loss = (net(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # finds: single-tensor-optimizer


if __name__ == "__main__":
    main()
