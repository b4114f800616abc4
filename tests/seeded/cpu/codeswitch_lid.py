# Word-level language identification in code-switched text (character convolutions, words pooled
# from their characters, then a word GRU)
import random
import string
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn
from torch.utils.data import DataLoader

LANGS = {"en": "etaoinshr", "es": "aeosrnidl", "tl": "anigtsmkl", "hi": "aeihknrtm"}
CHARS = {c: i + 2 for i, c in enumerate(string.ascii_lowercase)}  # 0 pad, 1 blank


@dataclass
class Batch:
    chars: torch.Tensor        # B x T
    owner: torch.Tensor        # B x T, running number of the word, n_words outside words
    spans: list                # (sentence, first, last + 1) of each word
    order: torch.Tensor        # B x W, index into the words, n_words where there is none
    labels: torch.Tensor       # B x W, -100 where there is none


def make_sentence(rng):
    tongue, words = rng.choice(list(LANGS)), []
    for _ in range(rng.randint(10, 14)):
        if rng.random() < 0.25:
            tongue = rng.choice(list(LANGS))
        letters = LANGS[tongue] * 3 + string.ascii_lowercase
        words.append(("".join(rng.choices(letters, k=rng.randint(2, 8))), tongue))
    ids, local, spans = [], [], []
    for i, (w, _) in enumerate(words):
        spans.append((len(ids), len(ids) + len(w)))
        ids += [CHARS[c] for c in w] + [1]
        local += [i] * len(w) + [-1]
    tags = list(LANGS)
    return (torch.tensor(ids), torch.tensor(local), spans,
            torch.tensor([tags.index(t) for _, t in words]))


def collate(rows):
    ids, local, sents, tags = zip(*rows)
    pad = partial(nn.utils.rnn.pad_sequence, batch_first=True)
    count = torch.tensor([len(s) for s in sents])
    n, width = int(count.sum()), int(count.max())
    first = (count.cumsum(0) - count)[:, None]
    local = pad(local, padding_value=-1)
    owner = torch.where(local >= 0, local + first, n)
    column = torch.arange(width)
    order = torch.where(column < count[:, None], column + first, n)
    spans = [(b, lo, hi) for b, s in enumerate(sents) for lo, hi in s]
    return Batch(pad(ids), owner, spans, order, pad(tags, padding_value=-100))


class WordPool(nn.Module):
    """Mean of a word's character states, one row per word."""

    def forward(self, states, batch):
        words = [states[b, lo:hi].mean(0) for b, lo, hi in batch.spans]  # finds: small-kernels
        # mend: n, who = len(batch.spans), batch.owner.flatten()
        # mend: sums = states.new_zeros(n + 1, states.size(2)).index_add(0, who, states.flatten(0, 1))
        return torch.stack(words)
        # mend: return sums[:n] / torch.bincount(who, minlength=n + 1)[:n, None]


class Tagger(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.embed = nn.Embedding(28, dim, padding_idx=0)
        self.inside = nn.Embedding(2, dim)
        self.convs = nn.ModuleList(nn.Conv1d(dim, dim, k, padding=k // 2) for k in (3, 5))
        self.pool = WordPool()
        self.context = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * dim, len(LANGS))

    def forward(self, batch):
        n = len(batch.spans)
        x = self.embed(batch.chars) + self.inside((batch.owner < n).long())
        x = x.transpose(1, 2)
        for conv in self.convs:
            x = x + torch.relu(conv(x))
        words = self.pool(x.transpose(1, 2), batch)
        padded = torch.cat([words, words.new_zeros(1, words.size(1))])[batch.order]
        states, _ = self.context(padded)
        return self.out(states).flatten(0, 1)


def forever(loader):
    while True:
        yield from loader


def main(steps: int = 8):
    torch.manual_seed(21)
    rng = random.Random(21)
    sentences = [make_sentence(rng) for _ in range(400)]
    loader = DataLoader(sentences, batch_size=16, shuffle=True, drop_last=True,
                        collate_fn=collate)
    model = Tagger()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3, fused=True)
    criterion = nn.CrossEntropyLoss()
    batches = forever(loader)
    for step in range(1, steps + 1):
        batch = next(batches)
        loss = criterion(model(batch), batch.labels.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 250 == 0:
            print(f"step {step}  loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
