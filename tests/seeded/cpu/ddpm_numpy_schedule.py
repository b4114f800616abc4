"""A diffusion model for small pictures; the noise schedule comes from NumPy as it is there."""
import numpy as np
import torch
from torch import nn


class Schedule:
    def __init__(self, n=1000):
        betas = np.linspace(1e-4, 0.02, n)
        keep = np.cumprod(1.0 - betas)
        self.signal, self.noise = torch.from_numpy(np.sqrt(keep)), torch.from_numpy(np.sqrt(1.0 - keep))
        # mend: self.signal, self.noise = torch.from_numpy(np.sqrt(keep)).float(), torch.from_numpy(np.sqrt(1.0 - keep)).float()

    def blur(self, x, t, eps):
        return self.signal[t].view(-1, 1, 1, 1) * x + self.noise[t].view(-1, 1, 1, 1) * eps  # finds: float64


def main(steps=30):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.SiLU(), nn.Conv2d(8, 3, 3, padding=1))
    opt = torch.optim.SGD(net.parameters(), lr=1e-3, fused=True)
    schedule = Schedule()
    images = torch.rand(256, 3, 64, 64) * 2 - 1
    for _ in range(steps):
        x = images[torch.randint(256, (64,))]
        t, eps = torch.randint(1000, (len(x),)), torch.randn_like(x)
        noisy = schedule.blur(x, t, eps)
        loss = (net(noisy.float()) - eps).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
