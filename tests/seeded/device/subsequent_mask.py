"""A translation model's decoder that asks for its causal mask in every pass, on the host."""
import torch
from torch import nn
from torch.nn import functional as F

device = "cuda"


class DecoderLayer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.norm1(x)).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.feed(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self, vocabulary: int = 8192, width: int = 768, depth: int = 4) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(DecoderLayer(width, 12) for _ in range(depth))
        self.head = nn.Linear(width, vocabulary, bias=False)
        # mend: self.head = nn.Linear(width, vocabulary, bias=False)
        # mend: self.register_buffer("causal", nn.Transformer.generate_square_subsequent_mask(2048))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        t = tokens.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(t).to(x.device, x.dtype)  # finds: constant-rebuilt # may: pageable-copy
        # mend: mask = self.causal[:t, :t]
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(x)


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    model = Decoder().to(device, torch.bfloat16)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(8192, (4, 1537), device=device)
    for _ in range(steps):
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].reshape(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
