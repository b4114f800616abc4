"""Formation energies of crystals from neighbour shells (a small SchNet), as in our group's training script."""
import argparse
import logging
import math
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("crystals")


class Crystals(Dataset):
    """Structures in a cubic cell; neighbours under periodic boundaries."""

    def __init__(self, count: int, atoms: int = 24, nearest: int = 12, seed: int = 0) -> None:
        rng = random.Random(seed)
        self.nearest = nearest
        self.cells = [rng.uniform(6.0, 9.0) for _ in range(count)]
        self.fractions = [[[rng.random() for _ in range(3)] for _ in range(atoms)] for _ in range(count)]
        self.species = [[rng.randrange(8) for _ in range(atoms)] for _ in range(count)]
        self.energies = [-0.1 * sum(s) / atoms + 0.05 * cell for s, cell in zip(self.species, self.cells)]

    def __len__(self) -> int:
        return len(self.cells)

    def neighbours(self, index: int) -> tuple[list[list[int]], list[list[float]]]:
        cell, sites = self.cells[index], self.fractions[index]
        who, far = [], []
        for i, a in enumerate(sites):
            shell = []
            for j, b in enumerate(sites):
                if i == j:
                    continue
                d = [u - v - round(u - v) for u, v in zip(a, b)]
                shell.append((cell * math.sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]), j))
            shell.sort()
            far.append([r for r, _ in shell[: self.nearest]])
            who.append([j for _, j in shell[: self.nearest]])
        return who, far

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        who, far = self.neighbours(index)
        return (
            torch.tensor(self.species[index]),
            torch.tensor(who),
            torch.tensor(far),
            torch.tensor(self.energies[index]),
        )


class Interaction(nn.Module):
    def __init__(self, width: int, radial: int) -> None:
        super().__init__()
        self.filters = nn.Sequential(nn.Linear(radial, width), nn.SiLU(), nn.Linear(width, width))
        self.update = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, h: torch.Tensor, who: torch.Tensor, basis: torch.Tensor) -> torch.Tensor:
        b, n, k = who.shape
        around = h.gather(1, who.reshape(b, n * k, 1).expand(-1, -1, h.shape[-1])).view(b, n, k, -1)
        return h + self.update((around * self.filters(basis)).sum(2))


class SmallSchNet(nn.Module):
    def __init__(self, width: int = 64, radial: int = 16, blocks: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(8, width)
        self.register_buffer("centres", torch.linspace(0.0, 6.0, radial))
        self.blocks = nn.ModuleList(Interaction(width, radial) for _ in range(blocks))
        self.head = nn.Linear(width, 1)

    def forward(self, species: torch.Tensor, who: torch.Tensor, far: torch.Tensor) -> torch.Tensor:
        basis = torch.exp(-4.0 * (far[..., None] - self.centres).square())
        h = self.embed(species)
        for block in self.blocks:
            h = block(h, who, basis)
        return self.head(h).mean(1).squeeze(-1)


def train(args: argparse.Namespace) -> None:
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    data = Crystals(args.structures, seed=args.seed)
    loader = DataLoader(data, batch_size=args.batch, shuffle=True, drop_last=True)
    # mend: loader = DataLoader(data, batch_size=args.batch, shuffle=True, drop_last=True, num_workers=2, persistent_workers=True)
    model = SmallSchNet()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, fused=True)
    for epoch in range(args.epochs):
        total = torch.zeros(())
        for species, who, far, energy in loader:  # finds: data-loading
            loss = nn.functional.l1_loss(model(species, who, far), energy)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.detach()
        log.info("epoch %d: mae %.4f eV", epoch, total.item() / len(loader))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    parser = argparse.ArgumentParser()
    parser.add_argument("--structures", type=int, default=480)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    train(parser.parse_args())
