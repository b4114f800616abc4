"""Hourly demand at bike stations. Our in-house training engine: events in, callbacks out (trimmed to one file)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn


class Engine:
    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, loss: Callable[[Tensor, Tensor], Tensor]):
        self.model, self.optimizer, self.loss = model, optimizer, loss
        self.callbacks: list[Callback] = []
        self.epoch = 0
        self.total = torch.zeros(())
        self.batches = 0

    def fire(self, event: str) -> None:
        for callback in self.callbacks:
            getattr(callback, event)(self)

    def fit(self, batches: Callable[[], Iterator[tuple[Tensor, Tensor]]], epochs: int) -> None:
        self.fire("started")
        for self.epoch in range(epochs):
            self.total, self.batches = torch.zeros(()), 0
            self.model.train()
            for x, y in batches():
                self.train_batch(x, y)
                self.fire("batch_ended")
            self.fire("epoch_ended")
        self.fire("finished")

    def train_batch(self, x: Tensor, y: Tensor) -> None:
        loss = self.loss(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.total += loss.detach()
        self.batches += 1


class Callback:
    def started(self, engine: Engine) -> None: ...

    def batch_ended(self, engine: Engine) -> None: ...

    def epoch_ended(self, engine: Engine) -> None: ...

    def finished(self, engine: Engine) -> None: ...


class Report(Callback):
    def epoch_ended(self, engine: Engine) -> None:
        print(f"epoch {engine.epoch}: {engine.total.item() / engine.batches:.4f}")


class Decay(Callback):
    def __init__(self, gamma: float) -> None:
        self.gamma = gamma

    def epoch_ended(self, engine: Engine) -> None:
        for group in engine.optimizer.param_groups:
            group["lr"] *= self.gamma


class KeepBest(Callback):
    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y, self.best, self.weights = x, y, float("inf"), {}

    def epoch_ended(self, engine: Engine) -> None:
        engine.model.eval()
        with torch.inference_mode():
            score = engine.loss(engine.model(self.x), self.y).item()
        if score < self.best:
            self.best, self.weights = score, copy.deepcopy(engine.model.state_dict())

    def finished(self, engine: Engine) -> None:
        engine.model.load_state_dict(self.weights)
        print(f"best held-out loss {self.best:.4f}")


class Demand(nn.Module):
    """A day of readings of one station (24 hours, 6 channels) to the demand of the next hour."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Flatten(),
            nn.Linear(144, 384),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Linear(384, 384),
            nn.ReLU(),
            nn.Linear(384, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x).squeeze(-1).exp()


def main(epochs: int = 5) -> None:
    torch.manual_seed(23)
    x = torch.randn(12_000, 24, 6)
    y = torch.poisson((0.4 * x[:, -1].sum(1)).clamp(max=2).exp())
    model = Demand()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    engine = Engine(model, optimizer, nn.PoissonNLLLoss(log_input=False))
    engine.callbacks += [Report(), Decay(0.7), KeepBest(x[-1000:], y[-1000:])]

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        for rows in torch.randperm(11_000).split(1000):
            yield x[rows], y[rows]

    engine.fit(batches, epochs)


if __name__ == "__main__":
    main()
