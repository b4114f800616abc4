"""A physics-informed network whose second derivatives want double precision; it says so."""
import torch
from torch import nn

torch.set_default_dtype(torch.float64)


def derivative(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(1, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 1))
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    for _ in range(steps):
        x = torch.rand(1024, 1, requires_grad=True)
        u = net(x)
        residual = derivative(derivative(u, x), x) + u
        boundary = (net(torch.zeros(1, 1)) - 1.0).square().mean()
        loss = residual.square().mean() + boundary
        opt.zero_grad()
        loss.backward()
        opt.step()
    torch.set_default_dtype(torch.float32)


if __name__ == "__main__":
    main()
