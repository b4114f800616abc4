"""Solubility of molecules. The network makes its list of neighbours from the bonds in plain Python, in every forward pass."""

import random

import torch
from torch import nn


class MessagePassing(nn.Module):
    def __init__(self, kinds=16, width=64, rounds=3):
        super().__init__()
        self.embed = nn.Embedding(kinds, width)
        self.message, self.update = nn.Linear(width, width), nn.Linear(2 * width, width)
        self.read = nn.Linear(width, 1)
        self.rounds = rounds
        self.known = {}

    def neighbours(self, bonds, count):
        table = {atom: set() for atom in range(count)}
        for a, b in bonds:
            table[a].add(b)  # may: host-work
            table[b].add(a)  # may: host-work
        pairs = []
        for atom, others in table.items():
            for other in sorted(others):  # may: host-work
                pairs.append((other, atom))  # finds: host-work
        return pairs

    def forward(self, kinds, bonds):
        pairs = torch.tensor(self.neighbours(bonds, len(kinds)))  # may: host-work
        # mend: if id(bonds) not in self.known: self.known[id(bonds)] = torch.tensor(self.neighbours(bonds, len(kinds)))
        # mend: pairs = self.known[id(bonds)]
        h = self.embed(kinds)
        for _ in range(self.rounds):
            gathered = torch.zeros_like(h).index_add_(0, pairs[:, 1], self.message(h)[pairs[:, 0]])
            h = torch.relu(self.update(torch.cat([h, gathered], -1)))
        return self.read(h).mean()


def main(steps: int = 80):
    torch.manual_seed(0)
    rng = random.Random(0)
    atoms = 600
    boxes = [
        (
            torch.randint(0, 16, (atoms,)),
            [(rng.randrange(atoms), rng.randrange(atoms)) for _ in range(2400)],
            rng.random(),
        )
        for _ in range(4)
    ]
    model = MessagePassing()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    for step in range(steps):
        kinds, bonds, target = boxes[step % len(boxes)]
        loss = (model(kinds, bonds) - target).square()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if (step + 1) % 40 == 0:
            print(f"{step + 1:4d} {loss.item():.4f}")


if __name__ == "__main__":
    main()
