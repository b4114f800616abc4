"""A compiled function asks for a list of numbers in the middle."""
import torch
from torch import nn


class Pooled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inp, self.out = nn.Linear(128, 256), nn.Linear(256, 32)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.inp(x))
        longest = max(lengths.tolist())  # finds: graph-break
        return self.out(h[:, :longest].mean(1))


@torch.no_grad()
def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    model = torch.compile(Pooled())
    x, lengths = torch.randn(32, 64, 128), torch.randint(32, 64, (32,))
    for _ in range(steps):
        model(x, lengths)


if __name__ == "__main__":
    main()
