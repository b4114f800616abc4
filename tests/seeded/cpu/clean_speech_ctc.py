# options: --lengths
"""CTC acoustic model. Utterances are bucketed by length, so that a batch pads by a few frames only."""
from collections.abc import Iterator

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset, Sampler


class Utterances(Dataset):
    def __init__(self, n: int = 600, mels: int = 40, phones: int = 32):
        self.gen = torch.Generator().manual_seed(13)
        self.frames = torch.randint(80, 240, (n,), generator=self.gen).tolist()
        self.bank = torch.randn(20_000, mels, generator=self.gen)
        self.offset = torch.randint(0, 19_000, (n,), generator=self.gen).tolist()
        self.text = [torch.randint(1, phones, (f // 10,), generator=self.gen) for f in self.frames]

    def __len__(self) -> int:
        return len(self.frames)

    def __getitem__(self, i: int):
        o = self.offset[i]
        return self.bank[o:o + self.frames[i]], self.text[i]


class BucketSampler(Sampler[list[int]]):
    """Batches of neighbours in length, in random order, for ever."""

    def __init__(self, frames: list[int], batch: int, seed: int = 0):
        order = sorted(range(len(frames)), key=frames.__getitem__)
        self.groups = [order[i:i + batch] for i in range(0, len(order) - batch + 1, batch)]
        self.gen = torch.Generator().manual_seed(seed)

    def __iter__(self) -> Iterator[list[int]]:
        while True:
            for g in torch.randperm(len(self.groups), generator=self.gen).tolist():
                yield self.groups[g]


def collate(items):
    items.sort(key=lambda it: -len(it[0]))
    feats, text = zip(*items)
    return (pad_sequence(feats, batch_first=True), torch.tensor([len(f) for f in feats]),
            torch.cat(text), torch.tensor([len(t) for t in text]))


class AcousticModel(nn.Module):
    def __init__(self, mels: int = 40, hidden: int = 96, phones: int = 32):
        super().__init__()
        self.front = nn.Conv1d(mels, hidden, 5, stride=2, padding=2)
        self.rnn = nn.GRU(hidden, hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, phones)

    def forward(self, x, frames):
        h = torch.relu(self.front(x.transpose(1, 2))).transpose(1, 2)
        frames = (frames + 1) // 2
        packed = pack_padded_sequence(h, frames, batch_first=True)
        h, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return self.out(h).log_softmax(-1), frames


def spec_augment(x: torch.Tensor, frames: torch.Tensor, width: int = 12) -> torch.Tensor:
    """One time mask and one band mask per utterance; the time mask lies within the utterance."""
    n, t, m = x.shape
    start = (torch.rand(n) * (frames - width)).long()[:, None]
    pos = torch.arange(t)[None]
    in_time = (pos >= start) & (pos < start + width)
    band = torch.randint(0, m - 8, (n, 1))
    mel = torch.arange(m)[None]
    in_band = (mel >= band) & (mel < band + 8)
    return x.masked_fill(in_time[:, :, None] | in_band[:, None, :], 0.0)


def noam(step: int, warmup: int = 200) -> float:
    step += 1
    return min(step ** -0.5, step * warmup ** -1.5) * warmup ** 0.5


def main(steps: int = 8):
    torch.manual_seed(6)
    data = Utterances()
    loader = DataLoader(data, batch_sampler=BucketSampler(data.frames, 12), collate_fn=collate,
                        num_workers=1, prefetch_factor=4, persistent_workers=True)
    model = AcousticModel().train()
    ctc = nn.CTCLoss(zero_infinity=True)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3, fused=True)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, noam)
    history = []
    batches = iter(loader)
    next(batches)  # the worker is up from here on
    for _step in range(steps):
        x, frames, text, text_len = next(batches)
        logp, out_len = model(spec_augment(x, frames), frames)
        loss = ctc(logp.transpose(0, 1), text, out_len, text_len)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        sched.step()
        history.append(loss.detach())
    return torch.stack(history).mean().item()


if __name__ == "__main__":
    main()
