"""A trainer whose callback writes a history of floats after every step."""
from __future__ import annotations

import torch
from torch import nn


class History:
    def __init__(self) -> None:
        self.losses: list[float] = []

    def on_step_end(self, loss: torch.Tensor) -> None:
        self.losses.append(float(loss))  # finds: hidden-sync


class Trainer:
    def __init__(self, model: nn.Module, callbacks: list[History]) -> None:
        self.model, self.callbacks = model, callbacks
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def training_step(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        return loss.detach()

    def fit(self, x: torch.Tensor, y: torch.Tensor, steps: int) -> None:
        for _ in range(steps):
            loss = self.training_step(x, y)
            self.optimizer.step()
            self.optimizer.zero_grad()
            for callback in self.callbacks:
                callback.on_step_end(loss)


def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(8, 64, 5, padding=2), nn.ReLU(), nn.AdaptiveAvgPool1d(8), nn.Flatten(), nn.Linear(512, 12))
    Trainer(model, [History()]).fit(torch.randn(64, 8, 128), torch.randint(12, (64,)), steps)


if __name__ == "__main__":
    main()
