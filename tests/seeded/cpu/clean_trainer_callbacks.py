"""A trainer class with callbacks, after the pattern of the Hugging Face one."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class Output:
    loss: torch.Tensor
    logits: torch.Tensor


@dataclass
class State:
    step: int = 0
    loss: torch.Tensor = field(default_factory=lambda: torch.zeros(()))
    history: list[dict[str, float]] = field(default_factory=list)


class Callback:
    def on_step_end(self, trainer: Trainer) -> None: ...


class Log(Callback):
    def __init__(self, every: int) -> None:
        self.every = every

    def on_step_end(self, trainer: Trainer) -> None:
        state = trainer.state
        if state.step % self.every == 0:
            state.history.append({"step": state.step, "loss": state.loss.item() / self.every})
            state.loss.zero_()


class Warmup(Callback):
    def on_step_end(self, trainer: Trainer) -> None:
        for group in trainer.optimizer.param_groups:
            group["lr"] = 1e-3 * min(1.0, (trainer.state.step + 1) / 20)


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(1000, 128)
        layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(128, 5)

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> Output:
        logits = self.head(self.encoder(self.embed(input_ids))[:, 0])
        return Output(nn.functional.cross_entropy(logits, labels), logits)


class Trainer:
    def __init__(self, model: nn.Module, data: dict[str, torch.Tensor], callbacks: list[Callback]) -> None:
        self.model, self.data, self.callbacks = model, data, callbacks
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
        self.state = State()

    def batches(self, steps: int) -> Iterator[dict[str, torch.Tensor]]:
        for step in range(steps):
            at = step * 16 % 480
            yield {key: value[at : at + 16] for key, value in self.data.items()}

    def training_step(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        self.model.train()
        loss = self.model(**batch).loss
        loss.backward()
        return loss.detach()

    def train(self, steps: int) -> None:
        for batch in self.batches(steps):
            self.state.loss += self.training_step(batch)
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.state.step += 1
            for callback in self.callbacks:
                callback.on_step_end(self)


def main(steps: int = 30) -> None:
    torch.manual_seed(42)
    data = {"input_ids": torch.randint(1000, (512, 64)), "labels": torch.randint(5, (512,))}
    Trainer(Classifier(), data, [Warmup(), Log(25)]).train(steps)


if __name__ == "__main__":
    main()
