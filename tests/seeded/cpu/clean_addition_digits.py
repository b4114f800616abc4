"""Can a tiny GPT learn to add? Seminar exercise: digits in, digits of the sum out (least significant first)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

DIGITS = 10
VOCAB = 12  # the ten digits, "+", "="


def to_digits(x):
    return x[:, None] // 10 ** torch.arange(DIGITS) % 10


def sample(n):
    a, b = torch.randint(10**9, (2, n))
    plus, equals = torch.full((n, 1), 10), torch.full((n, 1), 11)
    return torch.cat([to_digits(a), plus, to_digits(b), equals, to_digits(a + b)], 1)


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attention = Attention(dim, heads)
        self.feed = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.norm_a, self.norm_f = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x):
        x = x + self.attention(self.norm_a(x))
        return x + self.feed(self.norm_f(x))


class Adder(nn.Module):
    def __init__(self, dim=96, heads=4, layers=2, length=3 * DIGITS + 1):
        super().__init__()
        self.token = nn.Embedding(VOCAB, dim)
        self.position = nn.Parameter(0.02 * torch.randn(length, dim))
        self.layers = nn.Sequential(*(Layer(dim, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(dim)
        self.logits = nn.Linear(dim, VOCAB, bias=False)

    def forward(self, tokens):
        return self.logits(self.norm(self.layers(self.token(tokens) + self.position)))


def main(steps: int = 80):
    torch.manual_seed(5)
    problems = sample(4096)
    model = Adder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01, fused=True)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=20)
    model.train()
    for step in range(steps):
        rows = problems[torch.randint(len(problems), (24,))]
        logits = model(rows[:, :-1])[:, -DIGITS:]
        loss = F.cross_entropy(logits.flatten(0, 1), rows[:, -DIGITS:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        warmup.step()
        if (step + 1) % 40 == 0:
            print(f"step {step + 1}  loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
