"""SimCLR on small pictures: two views of every picture, made for the whole batch at once."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def augment(x):
    flip = torch.rand(len(x), 1, 1, 1) < 0.5
    x = torch.where(flip, x.flip(-1), x)
    x = x * (0.6 + 0.8 * torch.rand(len(x), 1, 1, 1)) + 0.2 * torch.rand(len(x), 3, 1, 1)
    return x + 0.05 * torch.randn_like(x)


class Encoder(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.blocks = nn.Sequential(*[
            nn.Sequential(nn.Conv2d(a, b, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True))
            for a, b in ((3, 32), (32, 64), (64, 128))
        ])
        self.proj = nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, dim))

    def forward(self, x):
        return F.normalize(self.proj(self.blocks(x).mean((2, 3))), dim=1)


def nt_xent(z1, z2, tau=0.2):
    z = torch.cat([z1, z2])
    sim = z @ z.T / tau
    sim.fill_diagonal_(-1e9)
    n = len(z1)
    target = torch.cat([torch.arange(n, 2 * n), torch.arange(n)])
    return F.cross_entropy(sim, target)


def main(epochs=3):
    torch.manual_seed(0)
    pictures = torch.rand(1024, 3, 32, 32)
    loader = DataLoader(TensorDataset(pictures), batch_size=128, shuffle=True, drop_last=True)
    model = Encoder()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=1e-4)
    for _ in range(epochs):
        for (x,) in loader:
            z1, z2 = model(augment(x)), model(augment(x))
            loss = nt_xent(z1, z2)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()


if __name__ == "__main__":
    main()
