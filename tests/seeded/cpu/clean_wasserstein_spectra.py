"""WGAN-GP that invents infrared spectra. Two critic updates for one of the generator."""

import torch
from torch import autograd, nn, optim

LATENT, POINTS, BATCH, N_CRITIC, GP = 32, 256, 128, 2, 10.0


def generator() -> nn.Module:
    return nn.Sequential(
        nn.Linear(LATENT, 256),
        nn.LeakyReLU(0.2),
        nn.Linear(256, 512),
        nn.LeakyReLU(0.2),
        nn.Linear(512, POINTS),
        nn.Sigmoid(),
    )


def critic() -> nn.Module:
    return nn.Sequential(
        nn.Linear(POINTS, 512), nn.LeakyReLU(0.2), nn.Linear(512, 512), nn.LeakyReLU(0.2), nn.Linear(512, 1)
    )


def real_spectra(count: int) -> torch.Tensor:
    wave = torch.linspace(0, 1, POINTS)
    centre, width = torch.rand(count, 6, 1), 0.01 + 0.04 * torch.rand(count, 6, 1)
    height = torch.rand(count, 6, 1)
    return (height / (1 + ((wave - centre) / width).square())).sum(1).clamp(max=1)


def gradient_penalty(net: nn.Module, real: torch.Tensor, fake: torch.Tensor) -> torch.Tensor:
    mix = torch.rand(real.size(0), 1)
    between = (mix * real + (1 - mix) * fake).requires_grad_()
    (slope,) = autograd.grad(net(between).sum(), between, create_graph=True)
    return (slope.norm(2, dim=1) - 1).square().mean()


def train(iterations: int = 50) -> None:
    torch.manual_seed(5)
    torch.set_num_threads(1)
    spectra = real_spectra(4096)
    net_g, net_d = generator(), critic()
    opt_g = optim.Adam(net_g.parameters(), lr=1e-4, betas=(0.0, 0.9), fused=True)
    opt_d = optim.Adam(net_d.parameters(), lr=1e-4, betas=(0.0, 0.9), fused=True)

    for it in range(iterations):
        # (1) critic
        net_d.requires_grad_(True)
        for _ in range(N_CRITIC):
            real = spectra[torch.randint(len(spectra), (BATCH,))]
            with torch.no_grad():
                fake = net_g(torch.randn(BATCH, LATENT))
            opt_d.zero_grad()
            loss_d = net_d(fake).mean() - net_d(real).mean() + GP * gradient_penalty(net_d, real, fake)
            loss_d.backward()
            opt_d.step()

        # (2) generator, through a frozen critic
        net_d.requires_grad_(False)
        opt_g.zero_grad()
        loss_g = -net_d(net_g(torch.randn(BATCH, LATENT))).mean()
        loss_g.backward()
        opt_g.step()

        if (it + 1) % 25 == 0:
            print(f"[{it + 1}/{iterations}] critic {loss_d.item():+.3f} generator {loss_g.item():+.3f}")


if __name__ == "__main__":
    train()
