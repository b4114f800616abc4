"""Anomaly scores for pump telemetry: a denoising autoencoder with callbacks."""
from __future__ import annotations

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

CHANNELS, WINDOW = 24, 256


def telemetry(length: int = 40_000, seed: int = 13) -> np.ndarray:
    rng = np.random.default_rng(seed)
    t = np.arange(length, dtype=np.float32)[:, None]
    freq = rng.uniform(0.005, 0.12, CHANNELS).astype(np.float32)
    scale = rng.lognormal(0.0, 0.9, CHANNELS).astype(np.float32)
    wave = np.sin(t * freq + rng.uniform(0, 6, CHANNELS).astype(np.float32))
    return (wave + 0.15 * rng.standard_normal((length, CHANNELS), dtype=np.float32)) * scale


class Windows:
    """All windows of the recording as one view; batches are drawn by their starts."""

    def __init__(self, signal: np.ndarray, batch: int):
        x = torch.from_numpy(signal)
        self.view = (x - x.mean(0)).t().contiguous().unfold(1, WINDOW, 4).transpose(0, 1)   # (windows, channels, time)
        self.batch = batch

    def draw(self):
        return self.view[torch.randint(self.view.shape[0], (self.batch,))]


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([nn.Conv1d(CHANNELS, 40, 5, 2, 2), nn.Conv1d(40, 48, 5, 2, 2), nn.Conv1d(48, 24, 5, 2, 2)])
        self.up = nn.ModuleList([nn.ConvTranspose1d(24, 48, 4, 2, 1), nn.ConvTranspose1d(48, 40, 4, 2, 1),
                                 nn.ConvTranspose1d(40, CHANNELS, 4, 2, 1)])

    def forward(self, x):
        for conv in self.down:
            x = F.silu(conv(x))
        for conv in self.up[:-1]:
            x = F.silu(conv(x))
        return self.up[-1](x)


class WeightedResidual(nn.Module):
    """Residuals in units of each channel's spread, compared in time and in frequency."""

    def __init__(self, signal: np.ndarray, spectral: float = 0.1):
        super().__init__()
        spread = np.sqrt(np.diag(np.cov(signal, rowvar=False)))
        self.register_buffer("gain", torch.from_numpy(1.0 / spread).view(-1, 1))  # finds: float64
        # mend: self.register_buffer("gain", torch.from_numpy(1.0 / spread).float().view(-1, 1))
        self.spectral = spectral

    def score(self, recon, x):
        return ((recon - x) * self.gain).square().mean((1, 2))

    def forward(self, recon, x):
        a, b = recon * self.gain, x * self.gain  # may: float64
        time = F.huber_loss(a, b, delta=1.5)  # may: float64
        freq = torch.fft.rfft(a - b, norm="ortho").abs().mean()  # may: float64
        return time + self.spectral * freq


class Callback:
    def on_step(self, trainer: "Trainer", loss: torch.Tensor): ...  # noqa: UP037


class RunningLoss(Callback):
    def __init__(self, every: int):
        self.every, self.sum = every, torch.zeros(())

    def on_step(self, trainer, loss):
        self.sum += loss.detach()
        if trainer.step % self.every == 0:
            print(f"step {trainer.step}: {self.sum.item() / self.every:.4f}, alarm at {trainer.threshold.item():.3f}")
            self.sum.zero_()


class AlarmThreshold(Callback):
    """Every now and then: the 99th percentile of the window scores becomes the alarm threshold."""

    def __init__(self, every: int = 50):
        self.every = every

    @torch.no_grad()
    def on_step(self, trainer, loss):
        if trainer.step % self.every == 0:
            x = trainer.data.draw()
            score = trainer.loss.score(trainer.model(x), x)
            trainer.threshold.copy_(torch.quantile(score, 0.99))


class Trainer:
    def __init__(self, signal: np.ndarray, batch: int = 64, noise: float = 0.1):
        self.data, self.noise = Windows(signal, batch), noise
        self.model, self.loss = AutoEncoder(), WeightedResidual(signal)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=2e-3, fused=True)
        self.sched = torch.optim.lr_scheduler.StepLR(self.opt, 100, 0.5)
        self.threshold = torch.zeros(())
        self.callbacks: list[Callback] = [AlarmThreshold(), RunningLoss(every=100)]
        self.step = 0

    def fit(self, steps: int):
        for self.step in range(1, steps + 1):
            x = self.data.draw()
            recon = self.model(x + self.noise * torch.randn_like(x))
            loss = self.loss(recon, x)  # may: float64
            self.opt.zero_grad()
            loss.backward()  # may: float64
            self.opt.step()
            self.sched.step()
            for callback in self.callbacks:
                callback.on_step(self, loss)


def main(steps: int = 200):
    torch.manual_seed(6)
    Trainer(telemetry()).fit(steps)


if __name__ == "__main__":
    main()
