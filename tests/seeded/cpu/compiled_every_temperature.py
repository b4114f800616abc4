"""A float that changes with the schedule is an attribute of a compiled module."""
import torch
from torch import nn


class Sampler(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(128, 128)
        self.stage = "a"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.inner(x)
        return torch.softmax(h * len(self.stage), dim=-1)  # finds: recompile


@torch.no_grad()
def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    module = Sampler()
    model = torch.compile(module)
    x = torch.randn(128, 128)
    for step in range(steps):  # may: compile-in-window
        module.stage = "x" * (1 + step % 6)
        model(x)


if __name__ == "__main__":
    main()
