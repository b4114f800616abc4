"""A decoder whose attention is batched products with the mask as what is added."""
import torch
from torch import nn
from torch.nn import functional as F

device = "cuda"
CONTEXT = 1024


class CausalAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, (width // heads) ** -0.5
        self.query, self.key, self.value, self.dense = (nn.Linear(width, width) for _ in range(4))
        self.register_buffer("causal", torch.full((1, CONTEXT, CONTEXT), float("-inf")).triu(1), persistent=False)

    def by_head(self, x: torch.Tensor) -> torch.Tensor:
        b, t, _ = x.shape
        return x.view(b, t, self.heads, -1).transpose(1, 2).reshape(b * self.heads, t, -1)  # may: unasked-copy

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = torch.baddbmm(self.causal, q, k.transpose(1, 2), alpha=self.scale)  # may: unasked-copy
        # mend: q, k, v = q[:, None], k[:, None], v[:, None]
        weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(v.dtype)  # finds: attention-unfused
        # mend: mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return torch.bmm(weights, v)  # may: unasked-copy
        # mend: return mixed.squeeze(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        y = self.attend(self.by_head(self.query(x)), self.by_head(self.key(x)), self.by_head(self.value(x)))
        return self.dense(y.view(b, self.heads, t, -1).transpose(1, 2).reshape(b, t, c))  # may: unasked-copy


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), CausalAttention(width, 8)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm(x))
        return x + self.mlp(x)


def main(steps: int = 32) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*[Layer(1024) for _ in range(4)]).to(device, torch.bfloat16)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    x = torch.randn(8, CONTEXT, 1024, device=device, dtype=torch.bfloat16)
    for _ in range(steps):
        loss = (model(x) - x).float().square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
