"""Message passing between atoms, filtered by their distances in a basis that NumPy laid out."""
import numpy as np
import torch
from torch import nn

device = "cuda"


class RadialBasis:
    def __init__(self, cutoff: float = 6.0, count: int = 256) -> None:
        self.centres = torch.from_numpy(np.linspace(0.0, cutoff, count)).to(device)
        # mend: self.centres = torch.from_numpy(np.linspace(0.0, cutoff, count)).to(device, torch.float32)
        self.gamma = 0.5 / (cutoff / count) ** 2

    def __call__(self, distances: torch.Tensor) -> torch.Tensor:
        return torch.exp(-self.gamma * (distances[:, None] - self.centres) ** 2)  # finds: float64


class Interaction(nn.Module):
    def __init__(self, width: int, basis: int) -> None:
        super().__init__()
        self.filter = nn.Sequential(nn.Linear(basis, width), nn.SiLU(), nn.Linear(width, width))
        self.update = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, h: torch.Tensor, edges: torch.Tensor, basis: torch.Tensor) -> torch.Tensor:
        messages = h.index_select(0, edges[0]) * self.filter(basis)
        return h + self.update(torch.zeros_like(h).index_add_(0, edges[1], messages))


class Potential(nn.Module):
    def __init__(self, width: int = 128, depth: int = 2) -> None:
        super().__init__()
        self.basis = RadialBasis()
        self.embed = nn.Embedding(100, width)
        self.layers = nn.ModuleList(Interaction(width, 256) for _ in range(depth))
        self.energy = nn.Linear(width, 8)

    def forward(self, numbers: torch.Tensor, edges: torch.Tensor, distances: torch.Tensor) -> torch.Tensor:
        h = self.embed(numbers)
        basis = self.basis(distances).to(h.dtype)
        for layer in self.layers:
            h = layer(h, edges, basis)
        return self.energy(h).float().sum()


def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    model = Potential().to(device, torch.bfloat16)
    opt = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    atoms, pairs = 16_384, 262_144
    numbers = torch.randint(100, (atoms,), device=device)
    edges = torch.randint(atoms, (2, pairs), device=device)
    distances = 6.0 * torch.rand(pairs, device=device)
    for _ in range(steps):
        loss = (model(numbers, edges, distances) - 1.0).square()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
