"""A Fourier-operator surrogate for decaying 2-D turbulence, trained on unrolled predictions."""
import contextlib
import math
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class FlowConfig:
    grid: int = 80
    modes: int = 10
    width: int = 12
    layers: int = 2
    bands: int = 32
    batch: int = 2
    unroll: int = 3
    lr: float = 2e-3


class PeriodicModule(nn.Module):
    """Base of all operators on the periodic box: knows where its cells lie."""

    def __init__(self, bands: int):
        super().__init__()
        g = torch.Generator().manual_seed(1234)
        self.register_buffer("freqs", torch.randint(-4, 5, (2, bands), generator=g).float() * 2 * math.pi)

    def cell_features(self, h: int, w: int):
        ys = torch.linspace(0, 1, h + 1, device=self.freqs.device)[:-1]  # may: constant-rebuilt
        xs = torch.linspace(0, 1, w + 1, device=self.freqs.device)[:-1]  # may: constant-rebuilt
        cells = torch.stack(torch.meshgrid(ys, xs, indexing="ij"), dim=-1)  # may: constant-rebuilt
        phase = cells @ self.freqs  # may: constant-rebuilt
        return torch.cat([phase.sin(), phase.cos()], dim=-1).permute(2, 0, 1)  # may: constant-rebuilt


class SpectralConv(nn.Module):
    def __init__(self, width: int, modes: int):
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(2, width, width, modes, modes, 2) / width)

    def forward(self, x):
        m = self.modes
        spec = torch.fft.rfft2(x, norm="ortho")
        low, high = torch.view_as_complex(self.weight)
        out = torch.zeros_like(spec)
        out[..., :m, :m] = torch.einsum("bixy,ioxy->boxy", spec[..., :m, :m], low)
        out[..., -m:, :m] = torch.einsum("bixy,ioxy->boxy", spec[..., -m:, :m], high)
        return torch.fft.irfft2(out, s=x.shape[-2:], norm="ortho")


class FlowOperator(PeriodicModule):
    """Predicts the change of the vorticity over one time step."""

    def __init__(self, cfg: FlowConfig):
        super().__init__(cfg.bands)
        self.lift = nn.Conv2d(1, cfg.width, 1)
        self.place = nn.Conv2d(2 * cfg.bands, cfg.width, 1)
        self.spectral = nn.ModuleList(SpectralConv(cfg.width, cfg.modes) for _ in range(cfg.layers))
        self.local = nn.ModuleList(nn.Conv2d(cfg.width, cfg.width, 1) for _ in range(cfg.layers))
        self.drop = nn.Conv2d(cfg.width, 1, 1)

    def forward(self, vorticity):
        cells = self.cell_features(*vorticity.shape[-2:])  # finds: constant-rebuilt
        # mend: if not hasattr(self, "_cells"):
            # mend: self._cells = self.cell_features(*vorticity.shape[-2:]).contiguous()
        # mend: cells = self._cells
        h = self.lift(vorticity) + self.place(cells.unsqueeze(0))
        for spectral, local in zip(self.spectral, self.local):
            h = F.gelu(spectral(h) + local(h))
        return vorticity + self.drop(h)


class Turbulence:
    """Band-limited vorticity that decays and drifts; exact in Fourier space, so cheap to look up."""

    def __init__(self, cfg: FlowConfig, fields: int = 24, frames: int = 12, seed: int = 31):
        g = torch.Generator().manual_seed(seed)
        n = cfg.grid
        ky = torch.fft.fftfreq(n, 1 / n)[:, None]
        kx = torch.fft.rfftfreq(n, 1 / n)[None]
        k2 = kx ** 2 + ky ** 2
        shape = torch.exp(-k2 / 40) * (k2 > 0)
        spec = torch.fft.rfft2(torch.randn(fields, 1, n, n, generator=g)) * shape
        drift = torch.randn(fields, 2, 1, 1, generator=g)
        phase = (drift[:, :1] * ky + drift[:, 1:] * kx) * 0.05
        out = []
        for t in range(frames):
            out.append(torch.fft.irfft2(spec * torch.exp(torch.complex((-0.004 * t * k2).expand_as(phase), t * phase)), s=(n, n)))
        self.frames = torch.stack(out, dim=1)
        self.frames /= self.frames.std()
        self.random = random.Random(seed)

    def clip(self, batch: int, length: int):
        which = self.random.sample(range(self.frames.shape[0]), batch)
        start = self.random.randrange(self.frames.shape[1] - length)
        return self.frames[which, start:start + length]


def unrolled_loss(model, clip):
    """Feeds predictions back; every step is compared with the reference frame."""
    state, loss = clip[:, 0], 0.0
    for t in range(1, clip.shape[1]):
        state = model(state)  # may: constant-rebuilt
        loss = loss + F.mse_loss(state, clip[:, t])
    return loss / (clip.shape[1] - 1)


@contextlib.contextmanager
def evaluating(model):
    model.eval()
    with torch.no_grad():
        yield model
    model.train()


def main(steps: int = 200):
    torch.manual_seed(2)
    cfg = FlowConfig()
    data = Turbulence(cfg)
    model = FlowOperator(cfg)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=1e-4, fused=True)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, max(steps, 1))
    for step in range(steps):
        loss = unrolled_loss(model, data.clip(cfg.batch, cfg.unroll + 1))  # may: constant-rebuilt
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        sched.step()
        if step % 100 == 99:
            with evaluating(model) as frozen:
                far = unrolled_loss(frozen, data.clip(2, 9))
            print(f"step {step + 1}: train {loss.item():.5f}, eight steps ahead {far.item():.5f}")


if __name__ == "__main__":
    main()
