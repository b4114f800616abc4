"""Two networks against each other; gradients are filled with zeros between their steps."""
import torch
from torch import nn


def mlp(*sizes: int) -> nn.Module:
    layers: list[nn.Module] = []
    for k in range(len(sizes) - 1):
        layers += [nn.Linear(sizes[k], sizes[k + 1]), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers[:-1])


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    generator, critic = mlp(32, 512, 512, 64), mlp(64, 512, 512, 1)
    opt_g = torch.optim.AdamW(generator.parameters(), lr=2e-4, betas=(0.5, 0.9), fused=True)
    opt_c = torch.optim.AdamW(critic.parameters(), lr=2e-4, betas=(0.5, 0.9), fused=True)
    real = torch.randn(64, 64)
    bce = nn.functional.binary_cross_entropy_with_logits
    for _ in range(steps):
        fake = generator(torch.randn(64, 32))
        opt_c.zero_grad(set_to_none=False)  # finds: zero-grad
        # mend: opt_c.zero_grad()
        loss_c = bce(critic(real), torch.ones(64, 1)) + bce(critic(fake.detach()), torch.zeros(64, 1))
        loss_c.backward()
        opt_c.step()
        opt_g.zero_grad()
        loss_g = bce(critic(fake), torch.ones(64, 1))
        loss_g.backward()
        opt_g.step()


if __name__ == "__main__":
    main()
