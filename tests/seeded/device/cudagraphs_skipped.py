"""reduce-overhead on a function that mutates its input."""
import torch
from torch import nn

device = "cuda"


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(*[m for _ in range(6) for m in (nn.Linear(256, 256), nn.ReLU())])

    def forward(self, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        seen.add_(1)  # finds: cudagraph-skip
        return self.body(x) + seen  # may: launch-bound


@torch.no_grad()
def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    model = torch.compile(Counter().to(device), mode="reduce-overhead")
    x = torch.randn(64, 256, device=device)
    for _ in range(steps):
        seen = torch.zeros(256, device=device)
        out = model(x, seen)
    print(out.shape)


if __name__ == "__main__":
    main()
