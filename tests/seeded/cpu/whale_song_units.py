"""Humpback song units from hydrophone clips: constant-Q front end, small conv-recurrent classifier."""
import functools  # noqa: F401 - of the mended program
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

UNITS = ("moan", "cry", "chirp", "grunt", "whistle", "creak")


@dataclass
class SongConfig:
    sample_rate: int = 8000
    seconds: float = 2.0
    bins: int = 96
    per_octave: int = 16
    fmin: float = 40.0
    n_fft: int = 4096
    hop: int = 400
    batch: int = 6
    clips: int = 192
    lr: float = 2e-3


class ConstantQ(nn.Module):
    """Log-magnitude constant-Q spectrogram by correlation with windowed exponentials."""

    def __init__(self, cfg: SongConfig):
        super().__init__()
        self.cfg = cfg
        self.q = 1.0 / (2 ** (1.0 / cfg.per_octave) - 1.0)

    @property
    # mend: @functools.cached_property
    def atoms(self) -> torch.Tensor:
        c = self.cfg
        freqs = c.fmin * 2.0 ** (torch.arange(c.bins) / c.per_octave)
        length = (self.q * c.sample_rate / freqs).clamp(max=c.n_fft)[:, None]
        t = torch.arange(c.n_fft, dtype=torch.float32)[None, :] - c.n_fft / 2
        window = torch.where(t.abs() < length / 2, 0.5 + 0.5 * torch.cos(2 * math.pi * t / length), 0.0)  # may: constant-rebuilt
        phase = 2 * math.pi * freqs[:, None] * t / c.sample_rate  # may: constant-rebuilt
        pair = torch.stack((window * phase.cos(), window * phase.sin()), dim=1)  # finds: constant-rebuilt
        return (pair / length[:, :, None]).view(2 * c.bins, 1, c.n_fft)  # may: constant-rebuilt

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        c = self.cfg
        resp = F.conv1d(wave.unsqueeze(1), self.atoms, stride=c.hop, padding=c.n_fft // 2)  # may: constant-rebuilt
        re, im = resp.view(wave.shape[0], c.bins, 2, -1).unbind(2)
        return torch.log1p(1e3 * (re.square() + im.square()))


class UnitNet(nn.Module):
    def __init__(self, cfg: SongConfig):
        super().__init__()
        self.front = ConstantQ(cfg)
        self.stem = nn.Sequential(
            nn.Conv1d(cfg.bins, 128, 5, padding=2, bias=False), nn.BatchNorm1d(128), nn.ReLU(),
            nn.Conv1d(128, 96, 3, padding=1, bias=False), nn.BatchNorm1d(96), nn.ReLU(),
        )
        self.rnn = nn.GRU(96, 64, batch_first=True)
        self.out = nn.Linear(64, len(UNITS))

    def forward(self, wave):
        with torch.no_grad():
            spec = self.front(wave)  # may: constant-rebuilt
        h, _ = self.rnn(self.stem(spec).transpose(1, 2))
        return self.out(h.mean(1))


def synth_clips(cfg: SongConfig, gen: torch.Generator):
    """Frequency-modulated tones under pink-ish noise, one unit type per clip."""
    n = int(cfg.sample_rate * cfg.seconds)
    t = torch.arange(n) / cfg.sample_rate
    label = torch.randint(len(UNITS), (cfg.clips,), generator=gen)
    base = 90.0 * 1.6 ** label.float() * (1 + 0.1 * torch.randn(cfg.clips, generator=gen))
    sweep = 40.0 * (label.float() - 2.5)
    inst = base[:, None] * t + 0.5 * sweep[:, None] * t.square()
    env = torch.sin(math.pi * t / cfg.seconds)
    wave = env * torch.sin(2 * math.pi * inst) + 0.3 * torch.randn(cfg.clips, n, generator=gen)
    return wave, label


def endless(wave, label, batch, gen):
    while True:
        for pick in torch.randperm(len(label), generator=gen).split(batch):
            if len(pick) == batch:
                yield wave[pick], label[pick]


class UnitTrainer:
    def __init__(self, cfg: SongConfig):
        self.cfg = cfg
        self.net = UnitNet(cfg)
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=cfg.lr, fused=True)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, T_max=400)

    def step(self, wave, label):
        self.opt.zero_grad()
        loss = F.cross_entropy(self.net(wave), label, label_smoothing=0.05)  # may: constant-rebuilt
        loss.backward()
        self.opt.step()
        self.sched.step()
        return loss.detach()


def main(steps: int = 200):
    torch.manual_seed(17)
    gen = torch.Generator().manual_seed(17)
    cfg = SongConfig()
    wave, label = synth_clips(cfg, gen)
    trainer = UnitTrainer(cfg)
    stream = endless(wave, label, cfg.batch, gen)
    for i in range(steps):
        loss = trainer.step(*next(stream))  # may: constant-rebuilt
        if i % 100 == 99:
            print(f"step {i + 1}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
