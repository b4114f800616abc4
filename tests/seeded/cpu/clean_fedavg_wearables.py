"""Federated averaging over wearables: non-iid clients, local SGD, server momentum."""
from __future__ import annotations

import io
import itertools
import logging
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

log = logging.getLogger("fedavg")


@dataclass
class FedConfig:
    clients: int = 12
    per_round: int = 3
    local_steps: int = 2
    batch: int = 128
    lr: float = 0.05
    server_momentum: float = 0.6
    checkpoint_every: int = 100
    log_every: int = 50
    window: int = 96
    classes: int = 6


def har_net(cfg: FedConfig) -> nn.Module:
    return nn.Sequential(
        nn.Conv1d(6, 32, 5, stride=2, padding=2), nn.ReLU(),
        nn.Conv1d(32, 48, 5, stride=2, padding=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(48 * cfg.window // 4, 96), nn.ReLU(), nn.Linear(96, cfg.classes),
    )


@dataclass
class Client:
    name: str
    data: TensorDataset
    cfg: FedConfig
    _stream: object = field(default=None, repr=False)

    def stream(self):
        if self._stream is None:
            sampler = BatchSampler(RandomSampler(self.data), self.cfg.batch, drop_last=True)
            loader = DataLoader(self.data, sampler=sampler, batch_size=None)
            self._stream = itertools.chain.from_iterable(itertools.repeat(loader))
        return self._stream

    def train(self, model: nn.Module, lr: float) -> torch.Tensor:
        """A few local steps; `model` is the worker's scratch copy, already loaded."""
        opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, fused=True)
        for x, y in itertools.islice(self.stream(), self.cfg.local_steps):
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        return loss.detach()


class Server:
    def __init__(self, cfg: FedConfig, clients: list[Client], seed: int):
        self.cfg, self.clients = cfg, clients
        self.model = har_net(cfg)
        self.scratch = har_net(cfg)
        self.velocity = [torch.zeros_like(p) for p in self.model.parameters()]
        self.gen = torch.Generator().manual_seed(seed)
        self.saved: io.BytesIO | None = None
        self.round = 0

    @property
    def weights(self):
        return [p.detach() for p in self.model.parameters()]

    def lr(self) -> float:
        return self.cfg.lr * 0.995 ** self.round

    def run_round(self):
        local = [p.detach() for p in self.scratch.parameters()]
        total = [torch.zeros_like(w) for w in self.weights]
        losses = []
        # one after the other: a client's scratch weights depend on its own steps
        for k in torch.randperm(len(self.clients), generator=self.gen)[: self.cfg.per_round].numpy():
            torch._foreach_copy_(local, self.weights)
            losses.append(self.clients[k].train(self.scratch, self.lr()))
            torch._foreach_add_(total, local, alpha=1 / self.cfg.per_round)
        torch._foreach_sub_(total, self.weights)
        torch._foreach_mul_(self.velocity, self.cfg.server_momentum)
        torch._foreach_add_(self.velocity, total)
        torch._foreach_add_(self.weights, self.velocity)
        self.round += 1
        if self.round % self.cfg.log_every == 0:
            log.info("round %d loss %.3f", self.round, torch.stack(losses).mean().item())
        if self.round % self.cfg.checkpoint_every == 0:
            self.saved = io.BytesIO()
            torch.save(self.model.state_dict(), self.saved)


def make_clients(cfg: FedConfig) -> list[Client]:
    gen = torch.Generator().manual_seed(17)
    t = torch.linspace(0, 4, cfg.window)
    out = []
    for c in range(cfg.clients):
        mix = torch.rand(cfg.classes, generator=gen).pow(3) + 0.02  # label skew
        y = torch.multinomial(mix, 640, replacement=True, generator=gen)
        phase = torch.rand(640, 6, 1, generator=gen) * 6.28
        x = torch.sin((1 + y[:, None, None]) * t + phase) + 0.5 * torch.randn(640, 6, cfg.window, generator=gen)
        out.append(Client(f"wearable-{c}", TensorDataset(x, y), cfg))
    return out


def main(steps: int = 8):
    torch.manual_seed(17)
    cfg = FedConfig()
    server = Server(cfg, make_clients(cfg), seed=17)
    for _ in range(steps):
        server.run_round()
    return server.model


if __name__ == "__main__":
    main()
