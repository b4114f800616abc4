"""Near-infrared spectra of wheat: a small denoising autoencoder whose last layer is rescaled to absorbance by a hook."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

BANDS = 1050


def fake_spectra(n: int, rng: np.random.Generator) -> np.ndarray:
    nm = np.linspace(400, 2499, BANDS)
    peaks = rng.uniform(500, 2400, size=(6, 1))
    widths = rng.uniform(60, 220, size=(6, 1))
    shapes = np.exp(-0.5 * ((nm - peaks) / widths) ** 2)
    return rng.gamma(2.0, 0.3, size=(n, 6)) @ shapes + 0.05


def rescale_output(layer: nn.Module, spectra: np.ndarray):
    """The network predicts standard scores; everybody outside wants absorbance."""
    mean, std = torch.from_numpy(spectra.mean(0)), torch.from_numpy(spectra.std(0))
    # mend: mean, std = torch.from_numpy(spectra.mean(0)).float(), torch.from_numpy(spectra.std(0)).float()

    def hook(module, inputs, output):
        return output * std + mean  # finds: float64

    return layer.register_forward_hook(hook)


def main(steps: int = 70) -> None:
    torch.manual_seed(3)
    spectra = fake_spectra(3000, np.random.default_rng(3))
    net = nn.Sequential(nn.Linear(BANDS, 128), nn.GELU(), nn.Linear(128, 24), nn.GELU(), nn.Linear(24, BANDS))
    rescale_output(net[-1], spectra)
    clean = torch.tensor(spectra, dtype=torch.float32)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3, fused=True)
    for step in range(steps):
        batch = clean[torch.randint(len(clean), (768,))]
        restored = net(batch + 0.02 * torch.randn_like(batch))
        loss = F.smooth_l1_loss(restored, batch, beta=0.1)  # may: float64
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 35 == 34:
            print(f"step {step + 1}: {loss.item():.5f}")


if __name__ == "__main__":
    main()
