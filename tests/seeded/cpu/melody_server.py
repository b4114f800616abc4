"""Answers requests for melodies: a recurrent model continues a primer, bar by bar, and streams the notes."""
import itertools
from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn as nn

REST, HOLD, LOW, PITCHES = 0, 1, 36, 62
VOCAB = PITCHES + 2


class Request(NamedTuple):
    primer: torch.Tensor        # (voices, ticks)
    bars: int
    temperature: float


class MelodyRNN(nn.Module):
    def __init__(self, width: int = 224):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 96)
        self.rnn = nn.GRU(96, width, num_layers=1, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCAB)

    def forward(self, notes, state=None):
        out, state = self.rnn(self.embed(notes), state)
        return self.head(self.norm(out)), state


class ScaleFilter:
    """Holds the sampler to one scale; rests and holds always pass."""

    MAJOR = (0, 2, 4, 5, 7, 9, 11)

    def __init__(self, key: int, penalty: float = 4.0):
        pitch = torch.arange(PITCHES) + LOW
        inside = torch.isin((pitch - key) % 12, torch.tensor(self.MAJOR))
        self.bias = torch.zeros(VOCAB)
        self.bias[2:][~inside] = -penalty

    def __call__(self, logits):
        return logits + self.bias


class Composer:
    TICKS_PER_BAR = 8

    def __init__(self, model: MelodyRNN, top_k: int = 12, key: int = 0):
        self.model, self.top_k = model.eval(), top_k
        self.filter = ScaleFilter(key)

    def pick(self, logits, temperature):
        values, ids = self.filter(logits).topk(self.top_k, dim=-1)
        choice = torch.multinomial((values / temperature).softmax(-1), 1)
        return ids.gather(1, choice)

    @torch.inference_mode()
    def stream(self, request: Request) -> Iterator[torch.Tensor]:
        """Yields one column of notes (all voices) for each tick."""
        notes = request.primer
        # mend: notes, state = request.primer, None
        for _ in range(request.bars * self.TICKS_PER_BAR):  # may: token-decode
            logits, _ = self.model(notes)  # finds: token-decode
            # mend: logits, state = self.model(notes, state)
            new = self.pick(logits[:, -1], request.temperature)  # may: small-kernels
            yield new
            notes = torch.cat([notes, new], dim=1)  # may: token-decode
            # mend: notes = new

    def compose(self, request: Request) -> torch.Tensor:
        return torch.cat(list(self.stream(request)), dim=1)  # may: token-decode


class SessionStats:
    """What the operators look at: how often a pitch is played, how much is silence."""

    def __init__(self):
        self.histogram, self.one = torch.zeros(VOCAB), torch.ones(())
        self.ticks = 0

    def add(self, piece):
        flat = piece.flatten()
        self.histogram.index_add_(0, flat, self.one.expand_as(flat))
        self.ticks += piece.numel()

    def summary(self):
        silent = self.histogram[REST] / max(self.ticks, 1)
        pitch = self.histogram[2:].argmax() + LOW
        return f"silence {silent.item():.2%}, most played {pitch.item()}"


def request_queue(seed: int = 8) -> Iterator[Request]:
    """Clients send primers of one or two bars for a few voices at once."""
    g = torch.Generator().manual_seed(seed)
    for n in itertools.count():
        primer = torch.randint(2, VOCAB, (8, 8 if n % 3 else 16), generator=g)
        primer[:, 1::4] = HOLD
        yield Request(primer, bars=4, temperature=0.8 + 0.1 * (n % 4))


def load_model() -> MelodyRNN:
    torch.manual_seed(21)
    model = MelodyRNN()
    with torch.no_grad():
        for name, p in model.rnn.named_parameters():
            if name.startswith("weight_hh"):
                nn.init.orthogonal_(p)
        model.head.weight.mul_(3.0)
    return model


def main(steps: int = 200):
    composer = Composer(load_model(), key=2)
    stats = SessionStats()
    for served, request in enumerate(itertools.islice(request_queue(), steps), start=1):
        piece = composer.compose(request)  # may: token-decode
        stats.add(piece)
        if served % 100 == 0:
            print(served, stats.summary())


if __name__ == "__main__":
    main()
