"""A Hopfield-style energy model trained with a loop that zeroes the gradients itself."""
import torch
import torch.nn as nn


class Energy(nn.Module):
    def __init__(self, width=768, depth=6):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.nn.functional.silu(layer(x))
        return self.out(x).squeeze(-1)


def main(steps=40):
    torch.manual_seed(0)
    energy = Energy()
    optimizer = torch.optim.SGD(energy.parameters(), lr=1e-4, foreach=True)
    data = torch.randn(16, 768)
    for _ in range(steps):
        for p in energy.parameters():
            if p.grad is not None:
                p.grad.zero_()  # finds: zero-grad
                # mend: p.grad = None
        noise = data + 0.5 * torch.randn_like(data)
        loss = energy(data).mean() - energy(noise).mean() + 1e-3 * energy(data).square().mean()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
