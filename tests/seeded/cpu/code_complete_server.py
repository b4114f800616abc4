"""Serves code completions: a small decoder answers batches of editor requests, token by token."""
import collections
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class ModelSpec:
    vocab: int = 2048
    width: int = 256
    heads: int = 4
    layers: int = 4
    context: int = 512


@dataclass
class Request:
    prompt: torch.Tensor
    room: int = 192
    produced: list = field(default_factory=list)


class PastKeys:
    """Keys and values of one layer for the tokens seen so far."""

    def __init__(self, batch: int, spec: ModelSpec):
        dim = spec.width // spec.heads
        self.seen = 0
        self.k = torch.empty(batch, spec.heads, 0, dim)
        # mend: self.k = torch.empty(batch, spec.heads, spec.context, dim)
        self.v = torch.empty(batch, spec.heads, 0, dim)
        # mend: self.v = torch.empty(batch, spec.heads, spec.context, dim)

    def extend(self, k, v):
        self.seen += k.shape[2]
        self.k = torch.cat([self.k, k], dim=2)  # finds: token-decode
        # mend: self.k[:, :, self.seen - k.shape[2]:self.seen] = k
        self.v = torch.cat([self.v, v], dim=2)  # may: token-decode
        # mend: self.v[:, :, self.seen - v.shape[2]:self.seen] = v
        return self.k, self.v
        # mend: return self.k[:, :, :self.seen], self.v[:, :, :self.seen]


class Layer(nn.Module):
    def __init__(self, spec: ModelSpec):
        super().__init__()
        self.heads = spec.heads
        self.ln1, self.ln2 = nn.LayerNorm(spec.width), nn.LayerNorm(spec.width)
        self.qkv = nn.Linear(spec.width, 3 * spec.width, bias=False)
        self.proj = nn.Linear(spec.width, spec.width, bias=False)
        self.up = nn.Linear(spec.width, 4 * spec.width)
        self.down = nn.Linear(4 * spec.width, spec.width)

    def forward(self, x, past: PastKeys):
        b, t, w = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        k, v = past.extend(k, v)  # may: token-decode
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        x = x + self.proj(mixed.transpose(1, 2).reshape(b, t, w))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class Completer(nn.Module):
    def __init__(self, spec: ModelSpec):
        super().__init__()
        self.spec = spec
        self.tokens = nn.Embedding(spec.vocab, spec.width)
        self.places = nn.Embedding(spec.context, spec.width)
        self.layers = nn.ModuleList(Layer(spec) for _ in range(spec.layers))
        self.norm = nn.LayerNorm(spec.width)
        nn.init.normal_(self.tokens.weight, std=0.02)
        nn.init.normal_(self.places.weight, std=0.02)

    def forward(self, ids, pasts):
        start = pasts[0].seen
        x = self.tokens(ids) + self.places.weight[start:start + ids.shape[1]]
        for layer, past in zip(self.layers, pasts):
            x = layer(x, past)  # may: token-decode
        return self.norm(x[:, -1]) @ self.tokens.weight.T


class Engine:
    def __init__(self, model: Completer, batch: int, seed: int):
        self.model = model.eval()
        self.batch = batch
        self.gen = torch.Generator().manual_seed(seed)

    def choose(self, logits, top: int = 40, temperature: float = 0.8):
        best, ids = logits.topk(top, dim=-1)
        drawn = torch.multinomial((best / temperature).softmax(-1), 1, generator=self.gen)
        return ids.gather(1, drawn)

    @torch.inference_mode()
    def stream(self, requests):
        """Yields one new token per request and round until every request has its room filled."""
        pasts = [PastKeys(len(requests), self.model.spec) for _ in self.model.layers]
        ids = torch.stack([r.prompt for r in requests])
        for _ in range(max(r.room for r in requests)):
            ids = self.choose(self.model(ids, pasts))  # may: token-decode
            yield ids


def editor_traffic(spec: ModelSpec, batch: int, gen: torch.Generator):
    while True:
        yield [Request(torch.randint(spec.vocab, (256,), generator=gen)) for _ in range(batch)]


def main(steps: int = 200):
    torch.manual_seed(3)
    gen = torch.Generator().manual_seed(3)
    spec = ModelSpec()
    engine = Engine(Completer(spec), batch=8, seed=4)
    recent = collections.deque(maxlen=16)
    done = 0
    for requests in editor_traffic(spec, engine.batch, gen):
        for column in engine.stream(requests):  # may: token-decode
            recent.append(column)
            done += 1
            if done == steps:
                print("last ids", torch.cat(list(recent), dim=1)[0, -4:].tolist())
                return


if __name__ == "__main__":
    main()
