"""A Fourier neural operator for fields on a grid, float32 with TF32 products: transforms and products of complex modes
eager, lifting, mixing, instance norm and GELU compiled, the relative L2 loss, Adam."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

BATCH, GRID, WIDTH, MODES, LAYERS = 16, 128, 64, 24, 2


class Spectral(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        # Real pairs, so that any optimizer takes them.
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH, 2 * MODES, MODES, 2) / WIDTH**2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        modes, weight = torch.fft.rfft2(x, norm="ortho"), torch.view_as_complex(self.weight)
        kept = torch.cat((modes[:, :, :MODES, :MODES], modes[:, :, -MODES:, :MODES]), 2)
        kept = torch.einsum("bixy,ioxy->boxy", kept, weight)
        out = modes.new_zeros(modes.shape)
        out[:, :, :MODES, :MODES], out[:, :, -MODES:, :MODES] = kept[:, :, :MODES], kept[:, :, MODES:]
        return torch.fft.irfft2(out, s=x.shape[-2:], norm="ortho")


class Join(nn.Module):
    """What a layer adds to its spectral half: a mix of channels, instance norm, GELU."""

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.norm = nn.Conv2d(WIDTH, WIDTH, 1), nn.InstanceNorm2d(WIDTH, affine=True)

    def forward(self, spectral: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(self.norm(spectral) + self.mix(x))


class Operator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lift = nn.Conv2d(3, WIDTH, 1)
        self.spectral = nn.ModuleList(Spectral() for _ in range(LAYERS))
        self.join = nn.ModuleList(Join() for _ in range(LAYERS))
        self.wide, self.project = nn.Conv2d(WIDTH, 2 * WIDTH, 1), nn.Conv2d(2 * WIDTH, 1, 1)

    def begin(self, field: torch.Tensor) -> torch.Tensor:
        line = torch.linspace(0, 1, GRID, device=field.device)
        places = torch.stack(torch.meshgrid(line, line, indexing="ij"))[None].expand(field.shape[0], -1, -1, -1)
        return self.lift(torch.cat((field, places), 1))

    def finish(self, x: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
        missed = (self.project(F.gelu(self.wide(x))) - truth).flatten(1).norm(dim=1)
        return (missed / truth.flatten(1).norm(dim=1)).mean()


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    operator = Operator().cuda()
    optimizer = torch.optim.Adam(operator.parameters(), lr=1e-3, fused=True)
    begin, finish = torch.compile(operator.begin), torch.compile(operator.finish)
    joins = [torch.compile(join) for join in operator.join]
    field, truth = (torch.randn(BATCH, 1, GRID, GRID, device="cuda") for _ in range(2))

    def step() -> None:
        x = begin(field)
        for spectral, join in zip(operator.spectral, joins, strict=True):
            x = join(spectral(x), x)
        finish(x, truth).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step
