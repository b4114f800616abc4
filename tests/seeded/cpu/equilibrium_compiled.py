"""A deep equilibrium layer, compiled; its solver asks at every iteration whether it has converged."""
import torch
import torch.nn as nn


class Equilibrium(nn.Module):
    def __init__(self, width, max_iter=6, tol=1e-3):
        super().__init__()
        self.inject = nn.Linear(width, width)
        self.mix = nn.Linear(width, width, bias=False)
        nn.init.orthogonal_(self.mix.weight, gain=0.4)
        self.max_iter, self.tol = max_iter, tol

    def forward(self, x):
        u = self.inject(x)
        z = torch.zeros_like(u)
        for _ in range(self.max_iter):
            z_next = torch.tanh(self.mix(z) + u)
            residual = (z_next - z).norm() / (z_next.norm() + 1e-9)
            z = z_next
            if residual < self.tol:  # finds: graph-break
                break
        return z


def main(steps=60):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 256), Equilibrium(256), nn.Linear(256, 10))
    net = torch.compile(net)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    x, y = torch.randn(512, 64), torch.randint(0, 10, (512,))
    for _ in range(steps):
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
