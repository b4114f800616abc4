"""A compiled elementwise chain over large tensors."""
import torch


def activate(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x) * torch.sigmoid(y) + x.square()


@torch.no_grad()
def main(steps: int = 80) -> None:
    torch.manual_seed(0)
    compiled = torch.compile(activate)
    x, y = torch.randn(1024, 1024), torch.randn(1024, 1024)
    for _ in range(steps):
        compiled(x, y)


if __name__ == "__main__":
    main()
