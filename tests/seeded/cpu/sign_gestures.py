# options: --lengths
"""Sign-language gestures from hand keypoints: a temporal transformer over clips of very different lengths."""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, Sampler


@dataclass
class Config:
    clips: int = 3200
    joints: int = 21
    classes: int = 60
    width: int = 64
    layers: int = 2
    heads: int = 4
    batch: int = 16
    max_frames: int = 192
    lr: float = 5e-4


class GestureClips(Dataset):
    """Two hands, 21 joints, two coordinates per frame. Most clips are short, a few are whole sentences."""

    def __init__(self, cfg: Config):
        g = torch.Generator().manual_seed(42)
        spread = torch.randn(cfg.clips, generator=g) * 0.6 + math.log(34)
        self.frames = spread.exp().long().clamp(12, cfg.max_frames)
        self.labels = torch.randint(cfg.classes, (cfg.clips,), generator=g)
        self.track = torch.randn(40_000, 2 * cfg.joints * 2, generator=g)
        starts = torch.randint(40_000 - cfg.max_frames, (cfg.clips,), generator=g)
        self.spans = list(zip(starts.tolist(), (starts + self.frames).tolist()))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        start, end = self.spans[i]
        return self.track[start:end], self.labels[i]


class ClipBatches(Sampler):
    """Shuffles, and sorts pools of `pool` batches by length so that clips of one batch resemble each other."""

    def __init__(self, frames, batch, pool: int, rounds: int = 4):
        self.frames, self.batch, self.pool, self.rounds = frames, batch, pool, rounds

    def __len__(self):
        return self.rounds * (len(self.frames) // self.batch)

    def __iter__(self):
        for _ in range(self.rounds):
            order = torch.randperm(len(self.frames))
            batches = []
            for chunk in order.split(self.batch * self.pool):
                chunk = chunk[self.frames[chunk].argsort()]
                batches += [b.tolist() for b in chunk.split(self.batch) if len(b) == self.batch]
            for j in torch.randperm(len(batches)).tolist():
                yield batches[j]


class PadClips:
    """Collates clips into one block of frames with their lengths."""

    def __init__(self, cfg: Config):
        self.max_frames = cfg.max_frames

    def __call__(self, items):
        lengths = torch.tensor([len(clip) for clip, _ in items])
        longest = self.max_frames  # finds: padding
        # mend: longest = int(lengths.max())
        block = torch.zeros(len(items), longest, items[0][0].shape[1])  # may: padding
        for row, (clip, _) in zip(block, items):
            row[:len(clip)] = clip
        return block, lengths, torch.stack([label for _, label in items])


class TemporalBlock(nn.Module):
    def __init__(self, cfg: Config):
        super().__init__()
        d = cfg.width
        self.heads = cfg.heads
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None])
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.n2(x))


class GestureNet(nn.Module):
    def __init__(self, cfg: Config):
        super().__init__()
        self.motion = nn.Conv1d(4 * cfg.joints, cfg.width, 5, padding=2)
        self.blocks = nn.ModuleList(TemporalBlock(cfg) for _ in range(cfg.layers))
        self.register_buffer("clock", torch.arange(cfg.max_frames))
        self.pos = nn.Embedding(cfg.max_frames, cfg.width)
        self.head = nn.Linear(cfg.width, cfg.classes)

    def forward(self, block, lengths):
        t = block.shape[1]
        mask = self.clock[:t] < lengths[:, None]
        h = self.motion(block.transpose(1, 2)).transpose(1, 2) + self.pos.weight[:t]
        for layer in self.blocks:
            h = layer(h, mask)
        pooled = (h * mask.unsqueeze(2)).sum(1) / lengths[:, None]
        return self.head(pooled)


def main(steps: int = 200):
    torch.manual_seed(0)
    cfg = Config()
    clips = GestureClips(cfg)
    plan = ClipBatches(clips.frames, cfg.batch, pool=10)
    loader = DataLoader(clips, batch_sampler=plan, collate_fn=PadClips(cfg))  # may: padding
    net = GestureNet(cfg)
    opt = torch.optim.AdamW(net.parameters(), lr=cfg.lr, weight_decay=0.02, fused=True)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 2e-3, total_steps=max(steps, 2) + 1)
    correct = torch.zeros((), dtype=torch.long)
    for step, (block, lengths, labels) in zip(range(steps), loader):  # may: padding
        logits = net(block, lengths)  # may: padding
        loss = F.cross_entropy(logits, labels, label_smoothing=0.05)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        sched.step()
        correct += (logits.argmax(1) == labels).sum()
        if step % 100 == 99:
            print(f"step {step + 1} loss {loss.item():.3f} accuracy {correct.item() / (100 * cfg.batch):.3f}")
            correct.zero_()


if __name__ == "__main__":
    main()
