"""A print was left in a compiled function."""
import torch


def score(x: torch.Tensor) -> torch.Tensor:
    y = torch.sin(x) * torch.cos(x)
    print(end="")  # finds: graph-break
    return y.square().sum(-1)


@torch.no_grad()
def main(steps: int = 80) -> None:
    torch.manual_seed(0)
    compiled = torch.compile(score)
    x = torch.randn(2048, 512)
    for _ in range(steps):
        compiled(x)


if __name__ == "__main__":
    main()
