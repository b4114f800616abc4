"""Movie sentiment, easy reviews first (Kaggle notebook exported as a script). Bag of embeddings + a curriculum scheduler."""

import random
from collections import Counter

import torch
from torch import nn

WORDS = [a + b for a in ("ba", "do", "fi", "gu", "ke", "lo", "mi", "ne", "ra", "tu") for b in "abcdefghijklmnopqrst"]
LENGTH = 40


def make_reviews(count, rng):
    weights = [1.0 / (rank + 2) for rank in range(len(WORDS))]
    return [" ".join(rng.choices(WORDS, weights, k=LENGTH)) for _ in range(count)]


class CurriculumScheduler:
    """Competence grows with the square root of time; a batch may use that share of the reviews, rarest words last."""

    def __init__(self, reviews, total):
        self.reviews, self.total, self.now = reviews, total, 0
        self.counts = Counter(word for review in reviews for word in review.split())
        self.order, self.open = [], 0
        # mend: self.open = 0
        # mend: self.order = sorted(range(len(reviews)), key=self.rarity)

    def rarity(self, i):
        return sum(1.0 / self.counts[word] for word in self.reviews[i].split())  # may: host-work

    def step(self):
        self.now += 1
        self.order = sorted(range(len(self.reviews)), key=self.rarity)  # finds: host-work
        # mend: pass
        self.open = int(len(self.order) * min(1.0, 0.2 + 0.8 * (self.now / self.total) ** 0.5))

    def batch(self, size, rng):
        return torch.tensor([self.order[rng.randrange(self.open)] for _ in range(size)])


class Sentiment(nn.Module):
    def __init__(self, dim=160):
        super().__init__()
        self.words = nn.Embedding(len(WORDS), dim)
        self.mix = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim), nn.SiLU())
        self.verdict = nn.Linear(dim, 2)

    def forward(self, ids):
        return self.verdict(self.mix(self.words(ids)).mean(1))


def main(steps: int = 70):
    torch.manual_seed(11)
    rng = random.Random(11)
    reviews = make_reviews(2000, rng)
    index = {word: i for i, word in enumerate(WORDS)}
    ids = torch.tensor([[index[word] for word in review.split()] for review in reviews])
    liked = (ids % 20 < 9).sum(1).gt(LENGTH // 2).long()
    model = Sentiment()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    curriculum = CurriculumScheduler(reviews, steps)
    for step in range(steps):
        curriculum.step()  # may: host-work
        rows = curriculum.batch(64, rng)
        loss = nn.functional.cross_entropy(model(ids[rows]), liked[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if (step + 1) % 35 == 0:
            print(f"{step + 1:4d}  open {curriculum.open:5d}  loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
