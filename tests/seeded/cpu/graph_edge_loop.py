"""Messages are added up edge by edge."""
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.message, self.own = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor, edges: list[tuple[int, int]]) -> torch.Tensor:
        message = torch.relu(self.message(x))
        total = torch.zeros_like(x)
        for src, dst in edges:
            total[dst] += message[src]  # finds: small-kernels
        return self.own(x) + total


@torch.no_grad()
def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    layers = nn.ModuleList([Layer(32), Layer(32)])
    edges = [(i * 7 % 50, i * 13 % 50) for i in range(200)]
    x = torch.randn(50, 32)
    for _ in range(steps):
        h = x
        for layer in layers:
            h = torch.relu(layer(h, edges))


if __name__ == "__main__":
    main()
