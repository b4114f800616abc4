# options: --lengths
"""Distils a translation model: word-level KD, and the student copies the teacher's alignment."""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

PAD, BOS = 0, 1


@dataclass(frozen=True)
class Shape:
    vocab: int
    width: int
    heads: int
    enc: int
    dec: int


class Attention(nn.Module):
    def __init__(self, s: Shape, keep_map: bool = False):
        super().__init__()
        self.heads, self.keep_map = s.heads, keep_map
        self.q = nn.Linear(s.width, s.width)
        self.kv = nn.Linear(s.width, 2 * s.width)
        self.o = nn.Linear(s.width, s.width)

    def forward(self, x, memory, mask=None, causal=False):
        b, t, d = x.shape
        q = self.q(x).view(b, t, self.heads, -1).transpose(1, 2)
        k, v = self.kv(memory).view(b, memory.shape[1], 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        if self.keep_map:                       # the alignment itself is a target of the distillation
            score = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
            probs = score.masked_fill(~mask, float("-inf")).softmax(-1)
            y = probs @ v
        else:
            probs = None
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        return self.o(y.transpose(1, 2).reshape(b, t, d)), probs


class Layer(nn.Module):
    def __init__(self, s: Shape, cross: bool, keep_map: bool = False):
        super().__init__()
        self.att, self.n1 = Attention(s), nn.LayerNorm(s.width)
        self.cross = Attention(s, keep_map) if cross else None
        self.n2 = nn.LayerNorm(s.width) if cross else None
        self.ff = nn.Sequential(nn.Linear(s.width, 4 * s.width), nn.ReLU(), nn.Linear(4 * s.width, s.width))
        self.n3 = nn.LayerNorm(s.width)

    def forward(self, x, mask, memory=None):
        h = self.n1(x)
        x = x + self.att(h, h, mask if memory is None else None, causal=memory is not None)[0]
        probs = None
        if memory is not None:
            y, probs = self.cross(self.n2(x), memory, mask)
            x = x + y
        return x + self.ff(self.n3(x)), probs


class Translator(nn.Module):
    def __init__(self, s: Shape, max_len: int = 64):
        super().__init__()
        self.embed = nn.Embedding(s.vocab, s.width, padding_idx=PAD)
        self.pos = nn.Parameter(0.02 * torch.randn(max_len, s.width))
        self.enc = nn.ModuleList(Layer(s, cross=False) for _ in range(s.enc))
        self.dec = nn.ModuleList(Layer(s, cross=True, keep_map=i == s.dec - 1) for i in range(s.dec))
        self.norm = nn.LayerNorm(s.width)
        self.out = nn.Linear(s.width, s.vocab)

    def forward(self, src, tgt):
        mask = (src != PAD)[:, None, None]
        memory = self.embed(src) + self.pos[:src.shape[1]]
        for layer in self.enc:
            memory, _ = layer(memory, mask)
        y, align = self.embed(tgt) + self.pos[:tgt.shape[1]], None
        for layer in self.dec:
            y, align = layer(y, mask, memory)
        return self.out(self.norm(y)), align


def bucketed_corpus(batches: int, size: int, vocab: int):
    """Sentence pairs sorted into batches of nearly equal lengths."""
    g = torch.Generator().manual_seed(2)
    out = []
    for _ in range(batches):
        longest = int(torch.randint(12, 30, (), generator=g))
        lengths = torch.randint(longest - 2, longest + 1, (size,), generator=g)
        src = torch.randint(3, vocab, (size, longest), generator=g)
        src[torch.arange(longest) >= lengths[:, None]] = PAD
        tgt = torch.where(src != PAD, (src * 7 + 5) % (vocab - 3) + 3, PAD)
        out.append({"src": src, "tgt_in": F.pad(tgt[:, :-1], (1, 0), value=BOS), "tgt": tgt, "lengths": lengths})
    return out


class DistilLoss(nn.Module):
    def __init__(self, temperature=2.0, soft=0.7, align=1.0):
        super().__init__()
        self.t, self.soft, self.align = temperature, soft, align

    def forward(self, student, teacher, tgt):
        (s_logits, s_map), (t_logits, t_map) = student, teacher
        real = (tgt != PAD).float()
        count = real.sum()
        hard = F.cross_entropy(s_logits.flatten(0, 1), tgt.flatten(), ignore_index=PAD, label_smoothing=0.1)
        kd = F.kl_div((s_logits / self.t).log_softmax(-1), (t_logits / self.t).softmax(-1), reduction="none").sum(-1)
        drift = (s_map - t_map).square().sum(-1).mean(1)
        return (1 - self.soft) * hard + (self.soft * self.t ** 2 * (kd * real).sum() + self.align * (drift * real).sum()) / count


def main(steps: int = 200):
    torch.manual_seed(1)
    vocab = 1200
    teacher = Translator(Shape(vocab, 128, 4, 2, 2)).eval().requires_grad_(False)
    student = Translator(Shape(vocab, 64, 4, 1, 1))
    loader = DataLoader(bucketed_corpus(400, 20, vocab), batch_size=None, shuffle=True)
    criterion = DistilLoss()
    opt = torch.optim.AdamW(student.parameters(), lr=1e-3, fused=True)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda n: min((n + 1) / 40, (40 / (n + 1)) ** 0.5))
    for step, batch in zip(range(steps), loader):
        with torch.no_grad():
            target = teacher(batch["src"], batch["tgt_in"])
        loss = criterion(student(batch["src"], batch["tgt_in"]), target, batch["tgt"])
        loss.backward()
        opt.step()
        opt.zero_grad()
        sched.step()
        if step % 50 == 49:
            print(f"step {step + 1} loss {loss.item():.3f} lr {sched.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    main()
