"""Speech denoising in the cosine domain; the transform's basis is written out where it is used."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Denoiser(nn.Module):
    def __init__(self, frame=512, hidden=256):
        super().__init__()
        self.frame = frame
        self.gru = nn.GRU(frame, hidden, batch_first=True)
        self.mask = nn.Linear(hidden, frame)

    def forward(self, wave):
        n = self.frame
        frames = wave.unfold(1, n, n)
        k = torch.arange(n)
        basis = torch.cos(math.pi / n * (k[None, :] + 0.5) * k[:, None])  # finds: constant-rebuilt
        # mend: basis = BASIS
        coeffs = frames @ basis.t()
        h, _ = self.gru(torch.log1p(coeffs.abs()))
        clean = coeffs * torch.sigmoid(self.mask(h))
        return (clean @ basis).flatten(1) * (2.0 / n), frames.flatten(1)


BASIS = torch.cos(math.pi / 512 * (torch.arange(512)[None, :] + 0.5) * torch.arange(512)[:, None])


def main(steps=30):
    torch.manual_seed(0)
    net = Denoiser()
    opt = torch.optim.Adam(net.parameters(), lr=3e-4)
    speech = torch.randn(4, 16 * 512)
    for _ in range(steps):
        noisy = speech + 0.3 * torch.randn_like(speech)
        out, _ = net(noisy)
        loss = F.l1_loss(out, speech)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        opt.step()  # may: single-tensor-optimizer


if __name__ == "__main__":
    main()
