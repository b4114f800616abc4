"""One addition of a few numbers, compiled."""
import torch


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y


@torch.no_grad()
def main(steps: int = 3000) -> None:
    torch.manual_seed(0)
    compiled = torch.compile(add)
    x, y = torch.randn(8), torch.randn(8)
    for _ in range(steps):
        x = compiled(x, y)  # finds: compiled-overhead


if __name__ == "__main__":
    main()
