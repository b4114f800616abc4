"""Bearing faults from vibration. The loop's own generator cuts its windows and takes their spectra one by one, in NumPy."""

import numpy as np
import torch
from torch import nn

WIDTH = 256


def spectra(windows, taper):
    """Of one window, or of a row each."""
    centred = windows - np.median(windows, axis=-1, keepdims=True)  # may: host-work
    return np.log1p(np.abs(np.fft.rfft(centred * taper))).astype(np.float32)  # may: host-work


def batches(signal, steps, rng, size=64):
    taper = np.hanning(WIDTH)
    for _ in range(steps):
        starts = rng.integers(0, len(signal) - WIDTH, size)
        rows = []
        for start in starts:  # may: host-work
            rows.append(spectra(signal[start : start + WIDTH], taper))  # finds: host-work
            # mend: rows.extend(spectra(signal[starts[:, None] + np.arange(WIDTH)], taper))
            # mend: break
        yield torch.from_numpy(np.stack(rows)), torch.from_numpy((starts % 5).astype(np.int64))


def main(steps: int = 120):
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    signal = rng.standard_normal(200_000)
    model = nn.Sequential(nn.Linear(WIDTH // 2 + 1, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 5))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    for step, (x, fault) in enumerate(batches(signal, steps, rng), 1):
        loss = nn.functional.cross_entropy(model(x), fault)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 60 == 0:
            print(f"{step:4d} {loss.item():.4f}")


if __name__ == "__main__":
    main()
