"""An evolution strategy: NumPy draws and ranks the population, torch judges all of it at once."""
import numpy as np
import torch


def main(steps=40):
    rng = np.random.default_rng(0)
    inputs, hidden, population = 24, 48, 128
    size = inputs * hidden + hidden
    mean, sigma = np.zeros(size, np.float32), 0.1
    x = torch.randn(1, 256, inputs).expand(population, -1, -1)
    target = torch.sin(x[:1, :, :3].sum(-1))
    for _ in range(steps):
        noise = rng.standard_normal((population, size), dtype=np.float32)
        people = torch.from_numpy(mean + sigma * noise)
        w, v = people[:, : inputs * hidden].view(population, inputs, hidden), people[:, inputs * hidden :, None]
        with torch.inference_mode():
            cost = (torch.tanh(torch.bmm(x, w)).bmm(v).squeeze(-1) - target).square().mean(1)
        order = np.argsort(cost.numpy())
        weights = np.maximum(0.0, np.log(population / 2 + 1) - np.log(np.arange(1, population + 1))).astype(np.float32)
        weights /= weights.sum()
        mean = mean + sigma * weights @ noise[order]
        sigma *= 0.999


if __name__ == "__main__":
    main()
