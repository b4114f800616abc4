"""A compiled step that reads a number in the middle."""
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(512, 512), nn.Linear(512, 512)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.first(x))
        scale = h.abs().max().item()  # finds: graph-break
        return self.second(h / (scale + 1.0))


@torch.no_grad()
def main(steps: int = 80) -> None:
    torch.manual_seed(0)
    model = torch.compile(Model())
    x = torch.randn(512, 512)
    for _ in range(steps):
        model(x)


if __name__ == "__main__":
    main()
