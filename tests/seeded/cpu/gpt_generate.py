"""Generation as nanoGPT does it: the whole context again for every token."""
import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = self.qkv(self.ln_1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, vocab: int = 256, width: int = 128) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(512, width)
        self.register_buffer("pos", torch.arange(512))
        self.h = nn.ModuleList([Block(width, 4) for _ in range(3)])
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, idx: torch.Tensor) -> torch.Tensor:
        x = self.wte(idx) + self.wpe(self.pos[: idx.size(1)])  # may: token-decode
        for block in self.h:
            x = block(x)
        return self.head(x[:, [-1], :])


@torch.no_grad()
def generate(model: GPT, idx: torch.Tensor, new: int, temperature: float = 0.8, top_k: int = 20) -> torch.Tensor:
    for _ in range(new):
        with torch.profiler.record_function("token"):
            logits = model(idx)[:, -1, :] / temperature  # finds: token-decode
            v, _ = torch.topk(logits, top_k)
            logits[logits < v[:, [-1]]] = -float("inf")
            nxt = torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)
            idx = torch.cat((idx, nxt), dim=1)
    return idx


def main(steps: int = 100) -> None:
    torch.manual_seed(1337)
    generate(GPT().eval(), torch.randint(256, (4, 48)), steps)


if __name__ == "__main__":
    main()
