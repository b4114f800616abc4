"""A Fourier layer inside a compiled model: complex numbers are left to ATen."""
import torch
from torch import nn


class Spectral(nn.Module):
    def __init__(self, width: int, modes: int) -> None:
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(modes, width, dtype=torch.cfloat) / width)
        self.local = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spectrum = torch.fft.rfft(x, dim=1)  # may: fallback-kernel
        mixed = spectrum[:, : self.modes] * self.weight  # finds: fallback-kernel
        back = torch.fft.irfft(mixed, n=x.size(1), dim=1)  # may: fallback-kernel
        return torch.nn.functional.gelu(back + self.local(x))


@torch.no_grad()
def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    model = torch.compile(nn.Sequential(Spectral(64, 32), Spectral(64, 32)))
    x = torch.randn(32, 256, 64)
    for _ in range(steps):
        model(x)


if __name__ == "__main__":
    main()
