"""A Python number that changes with every call is part of the guards."""
import torch


def decay(x: torch.Tensor, table: dict[str, int]) -> torch.Tensor:
    return x * (1.0 - 0.001 * table["step"])  # finds: recompile


@torch.no_grad()
def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    compiled = torch.compile(decay, dynamic=False)
    x = torch.randn(128, 128)
    for step in range(steps):  # may: compile-in-window
        x = compiled(x, {"step": step % 6})


if __name__ == "__main__":
    main()
