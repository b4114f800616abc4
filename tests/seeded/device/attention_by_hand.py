"""Attention written out in the model."""
import math

import torch
from torch import nn

device = "cuda"


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)  # may: unasked-copy
        scores = q @ k.transpose(-2, -1) / math.sqrt(c // self.heads)  # may: unasked-copy
        # mend: assert math.isqrt(n * n) == n
        weights = torch.softmax(scores, dim=-1)  # finds: attention-unfused
        # mend: y = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.out((weights @ v).transpose(1, 2).reshape(b, n, c))  # may: unasked-copy
        # mend: return self.out(y.transpose(1, 2).reshape(b, n, c))


def main(steps: int = 30) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*[Attention(1024, 16) for _ in range(4)]).to(device, torch.bfloat16)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    x = torch.randn(8, 1024, 1024, device=device, dtype=torch.bfloat16)
    for _ in range(steps):
        loss = model(x).float().square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
