"""Route support tickets to teams. Learns byte pairs in plain Python, encodes everything once, then trains on tensors."""
from __future__ import annotations

import random
import time
from collections import Counter
from itertools import pairwise

import torch
from torch import nn

TEAMS = ["billing", "network", "hardware", "accounts"]
SYLLABLES = [c + v + e for c in "bdfgklmnprst" for v in "aeiou" for e in ("", "n", "r", "s")]


def write_tickets(count: int, rng: random.Random) -> tuple[list[str], list[int]]:
    lexicon = {team: ["".join(rng.choices(SYLLABLES, k=rng.randint(2, 4))) for _ in range(150)] for team in TEAMS}
    common = ["".join(rng.choices(SYLLABLES, k=2)) for _ in range(200)]
    texts, labels = [], []
    for _ in range(count):
        team = rng.randrange(len(TEAMS))
        words = rng.choices(common, k=rng.randint(8, 40)) + rng.choices(lexicon[TEAMS[team]], k=rng.randint(3, 12))
        rng.shuffle(words)
        texts.append(" ".join(words))
        labels.append(team)
    return texts, labels


class BytePairs:
    def __init__(self) -> None:
        self.merges: list[tuple[str, str]] = []
        self.words: dict[str, list[int]] = {}
        self.vocabulary: dict[str, int] = {}

    def fit(self, texts: list[str], merges: int) -> BytePairs:
        counts = Counter(word for text in texts for word in text.split())
        pieces = {word: list(word) for word in counts}
        for _ in range(merges):
            pairs: Counter[tuple[str, str]] = Counter()
            for word, split in pieces.items():
                for pair in pairwise(split):
                    pairs[pair] += counts[word]
            if not pairs:
                break
            best = max(pairs, key=lambda pair: pairs[pair])
            self.merges.append(best)
            for word, split in pieces.items():
                merged, i = [], 0
                while i < len(split):
                    if i + 1 < len(split) and (split[i], split[i + 1]) == best:
                        merged.append(split[i] + split[i + 1])
                        i += 2
                    else:
                        merged.append(split[i])
                        i += 1
                pieces[word] = merged
        for split in pieces.values():
            for piece in split:
                self.vocabulary.setdefault(piece, len(self.vocabulary))
        self.words = {word: [self.vocabulary[piece] for piece in split] for word, split in pieces.items()}
        return self

    def encode(self, text: str) -> list[int]:
        return [piece for word in text.split() for piece in self.words[word]]


class Router(nn.Module):
    def __init__(self, vocabulary: int, width: int = 256) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(vocabulary, width, mode="mean")
        self.mlp = nn.Sequential(
            nn.Linear(width, 768), nn.GELU(), nn.Dropout(0.1), nn.Linear(768, 768), nn.GELU(), nn.Linear(768, len(TEAMS))
        )

    def forward(self, pieces: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
        return self.mlp(self.bag(pieces, starts))


def pack(encoded: list[list[int]], labels: list[int], size: int) -> list[tuple[torch.Tensor, ...]]:
    """Batches as EmbeddingBag wants them: one flat row of pieces and where each ticket starts."""
    batches = []
    for at in range(0, len(encoded), size):
        rows = encoded[at : at + size]
        lengths = torch.tensor([0] + [len(row) for row in rows[:-1]])
        flat = torch.tensor([piece for row in rows for piece in row])
        batches.append((flat, lengths.cumsum(0), torch.tensor(labels[at : at + size])))
    return batches


def main(epochs: int = 4) -> None:
    rng = random.Random(2)
    torch.manual_seed(2)
    torch.set_num_threads(1)
    began = time.time()
    texts, labels = write_tickets(5120, rng)
    bpe = BytePairs().fit(texts, merges=300)
    batches = pack([bpe.encode(text) for text in texts], labels, size=512)
    print(f"{len(bpe.vocabulary)} pieces, {len(batches)} batches, ready after {time.time() - began:.1f} s")

    model = Router(len(bpe.vocabulary))
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    for epoch in range(epochs):
        rng.shuffle(batches)
        for pieces, starts, team in batches:
            optimizer.zero_grad()
            loss = criterion(model(pieces, starts), team)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: {loss.item():.3f}")


if __name__ == "__main__":
    main()
