"""Decoding with a cache that is written in place."""
import torch
from torch import nn


@torch.no_grad()
def main(steps: int = 120) -> None:
    torch.manual_seed(0)
    qkv = nn.Linear(256, 768)
    keys, values = torch.zeros(16, 8, 512, 32), torch.zeros(16, 8, 512, 32)
    x = torch.randn(16, 1, 256)
    for step in range(steps):
        q, k, v = qkv(x).view(16, 1, 3, 8, 32).permute(2, 0, 3, 1, 4)
        keys[:, :, step : step + 1] = k
        values[:, :, step : step + 1] = v
        x = nn.functional.scaled_dot_product_attention(q, keys, values).transpose(1, 2).reshape(16, 1, 256)


if __name__ == "__main__":
    main()
