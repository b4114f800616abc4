"""Diffusion whose noise is mixed in sample after sample."""
import torch
from torch import nn


class Schedule:
    def __init__(self, steps: int = 1000) -> None:
        self.alphas = torch.cumprod(1.0 - torch.linspace(1e-4, 0.02, steps), 0)

    def add_noise(self, x: torch.Tensor, noise: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        rows = []
        for i in range(x.size(0)):
            a = self.alphas[t[i]]
            # mend: a = self.alphas[t].view(-1, 1)
            rows.append(a.sqrt() * x[i] + (1 - a).sqrt() * noise[i])  # finds: small-kernels
            # mend: return a.sqrt() * x + (1 - a).sqrt() * noise
        return torch.stack(rows)


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(65, 256), nn.SiLU(), nn.Linear(256, 256), nn.SiLU(), nn.Linear(256, 64))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    schedule = Schedule()
    data = torch.randn(2048, 64)
    for step in range(steps):
        x = data[step * 128 % 1920 : step * 128 % 1920 + 128]
        noise, t = torch.randn_like(x), torch.randint(1000, (128,))
        noisy = schedule.add_noise(x, noise, t)
        predicted = model(torch.cat([noisy, t[:, None] / 1000], dim=1))
        loss = nn.functional.mse_loss(predicted, noise)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
