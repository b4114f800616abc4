"""Sampling tokens with a cache of keys and values that was allocated once."""
import torch
from torch import nn
from torch.nn import functional as F


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, batch: int, length: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.register_buffer("k", torch.zeros(batch, heads, length, width // heads))
        self.register_buffer("v", torch.zeros(batch, heads, length, width // heads))

    def forward(self, x: torch.Tensor, at: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        self.k.index_copy_(2, at, k)
        self.v.index_copy_(2, at, v)
        y = F.scaled_dot_product_attention(q, self.k, self.v, attn_mask=mask)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    def __init__(self, vocab: int = 1000, width: int = 256, batch: int = 8, length: int = 256) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList([Layer(width, 8, batch, length) for _ in range(4)])
        self.head = nn.Linear(width, vocab, bias=False)
        self.register_buffer("causal", torch.tril(torch.ones(length, length, dtype=torch.bool)))

    def forward(self, token: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        x, mask = self.embed(token), self.causal[at]
        for layer in self.layers:
            x = layer(x, at, mask)
        return self.head(x[:, -1])


def sample(logits: torch.Tensor, k: int) -> torch.Tensor:
    values, index = logits.topk(k, dim=-1)
    return index.gather(1, torch.multinomial(values.softmax(-1), 1))


@torch.inference_mode()
def main(steps: int = 80) -> None:
    torch.manual_seed(0)
    model = Decoder().eval()
    token = torch.randint(1000, (8, 1))
    positions = torch.arange(256)
    out = torch.zeros(8, 256, dtype=torch.long)
    for step in range(steps):
        at = positions[step : step + 1]
        token = sample(model(token, at), 50)
        out[:, step] = token.squeeze(1)


if __name__ == "__main__":
    main()
