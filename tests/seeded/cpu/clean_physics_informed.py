"""A network that solves Burgers' equation: residuals by differentiating twice through it."""
import math

import torch
import torch.nn as nn

NU = 0.01 / math.pi


class PINN(nn.Module):
    def __init__(self, width=128, depth=5):
        super().__init__()
        dims = [2] + [width] * depth + [1]
        self.layers = nn.ModuleList(nn.Linear(dims[i], dims[i + 1]) for i in range(len(dims) - 1))

    def forward(self, x, t):
        h = torch.cat([x, t], dim=1)
        for layer in self.layers[:-1]:
            h = torch.tanh(layer(h))
        return self.layers[-1](h)


def residual(model, x, t):
    x.requires_grad_(True)
    t.requires_grad_(True)
    u = model(x, t)
    u_x, u_t = torch.autograd.grad(u, (x, t), torch.ones_like(u), create_graph=True)
    u_xx = torch.autograd.grad(u_x, x, torch.ones_like(u_x), create_graph=True)[0]
    return u_t + u * u_x - NU * u_xx


def main(iterations=60):
    torch.manual_seed(0)
    model = PINN()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x0 = torch.linspace(-1, 1, 256)[:, None]
    u0 = -torch.sin(math.pi * x0)
    tb = torch.rand(256, 1)
    for it in range(iterations):
        xf, tf = torch.rand(4096, 1) * 2 - 1, torch.rand(4096, 1)
        loss_f = residual(model, xf, tf).pow(2).mean()
        loss_0 = (model(x0, torch.zeros_like(x0)) - u0).pow(2).mean()
        loss_b = model(torch.ones_like(tb), tb).pow(2).mean() + model(-torch.ones_like(tb), tb).pow(2).mean()
        loss = loss_f + loss_0 + loss_b
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if it % 50 == 0:
            print(f"{it:4d} {loss.item():.4f}")


if __name__ == "__main__":
    main()
