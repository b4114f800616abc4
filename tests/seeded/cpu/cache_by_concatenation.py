"""Keys and values of earlier tokens are kept by torch.cat."""
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(128, 384)

    def forward(self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
        keys = torch.cat([keys, k], 2)  # finds: token-decode
        values = torch.cat([values, v], 2)
        out = nn.functional.scaled_dot_product_attention(q, keys, values)
        return out.transpose(1, 2).reshape(b, n, c), keys, values


@torch.no_grad()
def main(steps: int = 150) -> None:
    torch.manual_seed(0)
    layer = Layer().eval()
    x = torch.randn(4, 1, 128)
    keys = values = torch.randn(4, 4, 32, 32)
    for _ in range(steps):
        x, keys, values = layer(x, keys, values)


if __name__ == "__main__":
    main()
