"""Generates text token by token with a decoder and its key-value cache.

One token a step: each launch is small, and on a GPU the step is bound by latency rather than by arithmetic.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY = 4096


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.norm2 = nn.RMSNorm(width)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: torch.Tensor, cache: torch.Tensor, position: int) -> torch.Tensor:
        """``x``: batch × 1 × width. ``cache``: keys and values, 2 × batch × heads × positions × width of a head."""
        batch, _, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, 3, self.heads, 1, -1).unbind(1)
        cache[0, :, :, position : position + 1] = k
        cache[1, :, :, position : position + 1] = v
        keys, values = cache[:, :, :, : position + 1]
        attended = F.scaled_dot_product_attention(q, keys, values)
        x = x + self.out(attended.reshape(batch, 1, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    def __init__(self, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = nn.RMSNorm(width)

    def forward(self, token: torch.Tensor, caches: list[torch.Tensor], position: int) -> torch.Tensor:
        x = self.tokens(token)
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, cache, position)
        return F.linear(self.norm(x[:, -1]), self.tokens.weight)


def sample(logits: torch.Tensor, temperature: float = 0.8, top_k: int = 50) -> torch.Tensor:
    """One token for each row of ``logits``, among its ``top_k`` most probable."""
    best, indices = torch.topk(logits / temperature, top_k)
    chosen = torch.multinomial(F.softmax(best, dim=-1), 1)
    return indices.gather(1, chosen)


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    device = torch.device(options.device)
    width, heads, layers = (1024, 16, 16) if device.type == "cuda" else (256, 8, 6)

    torch.manual_seed(0)
    decoder = Decoder(width, heads, layers).to(device).eval()
    caches = [
        torch.zeros(2, options.batch, heads, options.tokens, width // heads, device=device) for _ in range(layers)
    ]
    token = torch.randint(0, VOCABULARY, (options.batch, 1), device=device)
    generated = [token]
    begun = time.perf_counter()
    for position in range(options.tokens):
        logits = decoder(token, caches, position)
        token = sample(logits)
        generated.append(token)
    text = torch.cat(generated, dim=1).cpu()
    seconds = time.perf_counter() - begun
    print(f"{text.shape[1] - 1} tokens for each of {options.batch} rows, {options.tokens / seconds:.0f} steps/s")


if __name__ == "__main__":
    main()
