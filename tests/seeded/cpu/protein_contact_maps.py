"""Contact maps from coevolution features: a dilated 2-D residual net with training callbacks."""
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class ContactConfig:
    length: int = 80
    channels: int = 16
    in_features: int = 12
    dilations: tuple = (1, 2, 4, 1, 2, 4)
    batch: int = 2
    chains: int = 24
    separation: int = 6
    lr: float = 3e-3


class DilatedUnit(nn.Module):
    def __init__(self, ch, dilation):
        super().__init__()
        self.c1 = nn.Conv2d(ch, ch, 3, padding=dilation, dilation=dilation, bias=False)
        self.n1 = nn.BatchNorm2d(ch)

    def forward(self, x):
        return x + F.elu(self.n1(self.c1(x)))


class ContactNet(nn.Module):
    def __init__(self, cfg: ContactConfig):
        super().__init__()
        self.inp = nn.Conv2d(cfg.in_features, cfg.channels, 1)
        self.body = nn.ModuleList(DilatedUnit(cfg.channels, d) for d in cfg.dilations)
        self.out = nn.Conv2d(cfg.channels, 1, 1)

    def forward(self, pair):
        x = self.inp(pair)
        for unit in self.body:
            x = unit(x)
        x = self.out(x).squeeze(1)
        return 0.5 * (x + x.transpose(1, 2))


class Callback:
    def on_step_end(self, trainer, logits, contact):
        pass


@dataclass
class TopPrecision(Callback):
    """Precision of the L/5, L/2 and L best pairs beyond the separation, as CASP reports it."""
    separation: int
    history: dict = field(default_factory=lambda: {"L/5": [], "L/2": [], "L": []})

    def ranked_pairs(self, chain):
        n = len(chain)
        pairs = [(chain[i][j], i, j) for i in range(n) for j in range(i + self.separation, n)]  # finds: host-work
        # mend: rows, cols = torch.triu_indices(n, n, self.separation)
        # mend: best = chain[rows, cols].topk(n).indices
        pairs.sort(reverse=True)  # may: host-work
        # mend: pass
        return pairs
        # mend: return rows[best], cols[best]

    def on_step_end(self, trainer, logits, contact):
        scores = logits.detach().tolist()  # may: hidden-sync
        # mend: scores = logits.detach()
        truth = contact.tolist()  # may: hidden-sync
        # mend: truth = contact
        for chain, wanted in zip(scores, truth):
            ranked = self.ranked_pairs(chain)  # may: host-work
            # mend: rows, cols = self.ranked_pairs(chain)
            n = len(chain)
            for name, top in (("L/5", n // 5), ("L/2", n // 2), ("L", n)):
                hits = sum(wanted[i][j] for _, i, j in ranked[:top])  # may: host-work
                # mend: hits = wanted[rows[:top], cols[:top]].sum()
                self.history[name].append(hits / top)


class Checkpoint(Callback):
    def __init__(self, every: int):
        self.every, self.best = every, None

    def on_step_end(self, trainer, logits, contact):
        if trainer.done % self.every == 0:
            self.best = {k: v.clone() for k, v in trainer.net.state_dict().items()}


def fold_chains(cfg: ContactConfig, gen: torch.Generator):
    """Random walks stand for backbones; noisy functions of their distances for coevolution."""
    walk = torch.randn(cfg.chains, cfg.length, 3, generator=gen).cumsum(1)
    dist = torch.cdist(walk, walk)
    contact = (dist < 4.0).float()
    noise = torch.randn(cfg.chains, cfg.in_features, cfg.length, cfg.length, generator=gen)
    pair = torch.exp(-dist / 6.0).unsqueeze(1) + 0.5 * (noise + noise.transpose(2, 3))
    return pair, contact


class ContactTrainer:
    def __init__(self, cfg: ContactConfig, callbacks):
        self.cfg, self.callbacks, self.done = cfg, callbacks, 0
        self.net = ContactNet(cfg)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=cfg.lr, fused=True)
        apart = torch.ones(cfg.length, cfg.length).triu(cfg.separation)
        self.weight = apart / apart.sum()

    def step(self, pair, contact):
        logits = self.net(pair)
        per_pair = F.binary_cross_entropy_with_logits(logits, contact, reduction="none")
        loss = (per_pair * self.weight).sum() / len(pair)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.done += 1
        for callback in self.callbacks:
            callback.on_step_end(self, logits, contact)  # may: host-work
        return loss.detach()


def main(steps: int = 200):
    torch.manual_seed(41)
    gen = torch.Generator().manual_seed(41)
    cfg = ContactConfig()
    pair, contact = fold_chains(cfg, gen)
    precision = TopPrecision(cfg.separation)
    trainer = ContactTrainer(cfg, [precision, Checkpoint(every=100)])
    for i in range(steps):
        pick = torch.randint(cfg.chains, (cfg.batch,), generator=gen)
        loss = trainer.step(pair[pick], contact[pick])  # may: host-work
        if i % 100 == 99:
            print(f"{i + 1}: loss {loss.item():.3f}, L/5 {float(precision.history['L/5'][-1]):.2f}")


if __name__ == "__main__":
    main()
