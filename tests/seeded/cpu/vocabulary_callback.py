"""What a customer wants, from words. A callback counts the words of the last texts anew after every step."""

import random
from collections import Counter

import torch
from torch import nn

WORDS = [f"w{i}" for i in range(500)]


class Callback:
    def on_step_end(self, trainer):
        pass


class VocabularyCoverage(Callback):
    def __init__(self):
        self.seen = []

    def on_step_end(self, trainer):
        self.seen.extend(trainer.texts)
        self.seen = self.seen[-2000:]
        counts = Counter()
        # mend: trainer.steps = getattr(trainer, "steps", 0) + 1
        # mend: if trainer.steps % 20: return
        # mend: counts = Counter()
        for text in self.seen:  # may: host-work
            counts.update(text.split())  # finds: host-work
        trainer.coverage = len(counts) / len(WORDS)


class LossAverage(Callback):
    def on_step_end(self, trainer):
        trainer.total = trainer.total + trainer.loss.detach()


class Trainer:
    def __init__(self, model, callbacks):
        self.model, self.callbacks = model, callbacks
        self.opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
        self.total, self.coverage = torch.zeros(()), 0.0

    def fit(self, batches):
        for texts, ids, y in batches:
            self.texts = texts
            self.loss = nn.functional.cross_entropy(self.model(ids), y)
            self.opt.zero_grad()
            self.loss.backward()
            self.opt.step()
            for callback in self.callbacks:
                callback.on_step_end(self)


def main(steps: int = 120):
    rng = random.Random(0)
    torch.manual_seed(0)
    texts = [" ".join(rng.choices(WORDS, k=24)) for _ in range(4000)]
    index = {w: i for i, w in enumerate(WORDS)}
    ids = torch.tensor([[index[w] for w in t.split()] for t in texts])
    y = ids.sum(1) % 8
    model = nn.Sequential(nn.EmbeddingBag(500, 128), nn.Linear(128, 256), nn.GELU(), nn.Linear(256, 8))
    starts = [(i * 64) % 3900 for i in range(steps)]
    trainer = Trainer(model, [VocabularyCoverage(), LossAverage()])
    trainer.fit((texts[s : s + 64], ids[s : s + 64], y[s : s + 64]) for s in starts)
    print(trainer.total / steps, trainer.coverage)


if __name__ == "__main__":
    main()
