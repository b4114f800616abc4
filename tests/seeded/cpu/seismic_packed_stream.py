"""Earthquake picks from a stream of packed records; the trainer draws batches with next(), as long as it likes."""
import itertools
import struct
import zlib

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Records(IterableDataset):
    def __init__(self, packed):
        self.packed = packed

    def __iter__(self):
        for blob in itertools.cycle(self.packed):
            raw = zlib.decompress(blob)
            samples = [s / 32768.0 for s in struct.unpack(f"<{len(raw) // 2}h", raw)]
            middle = sum(samples) / len(samples)
            yield torch.tensor([[s - middle for s in samples[c::3]] for c in range(3)]), len(blob) % 2


class Picker(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv1d(3, 16, 7, stride=4), nn.Conv1d(16, 32, 7, stride=4)
        self.c = nn.Linear(32, 2)

    def forward(self, x):
        return self.c(torch.relu(self.b(torch.relu(self.a(x)))).mean(-1))


def main(steps=40):
    torch.manual_seed(0)
    waves = (torch.randn(24, 3000) * 4000).clamp(-32000, 32000).short()
    packed = [zlib.compress(w.numpy().tobytes()) for w in waves]
    stream = iter(DataLoader(Records(packed), batch_size=16))
    model = Picker()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    done = 0
    while done < steps:
        waves, is_quake = next(stream)  # finds: data-loading
        loss = nn.functional.cross_entropy(model(waves), is_quake)
        opt.zero_grad()
        loss.backward()
        opt.step()
        done += 1


if __name__ == "__main__":
    main()
