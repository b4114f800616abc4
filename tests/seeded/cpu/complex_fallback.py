"""A rotation in complex numbers, which Inductor does not compile."""
import torch


def rotate(x: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
    z = torch.view_as_complex(x)
    return torch.view_as_real(z * turn).sin() + 1.0  # finds: fallback-kernel


@torch.no_grad()
def main(steps: int = 80) -> None:
    torch.manual_seed(0)
    compiled = torch.compile(rotate)
    x = torch.randn(256, 128, 2)
    turn = torch.polar(torch.ones(128), torch.linspace(0, 3, 128))
    for _ in range(steps):
        compiled(x, turn)


if __name__ == "__main__":
    main()
