"""A causal mask is made anew in every forward pass."""
import torch
from torch import nn
from torch.nn import functional as F

device = "cuda"


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        mask = torch.ones((t, t), device=x.device).tril().bool()  # finds: constant-rebuilt
        # mend: mask = MASK[:t, :t]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.proj(y.transpose(1, 2).reshape(b, t, c))


MASK = torch.ones((4096, 4096), device=device).tril().bool()


def main(steps: int = 48) -> None:
    torch.manual_seed(0)
    model = Attention(256, 4).to(device, torch.bfloat16)
    opt = torch.optim.SGD(model.parameters(), lr=1e-4, fused=True)
    x = torch.randn(1, 4096, 256, device=device, dtype=torch.bfloat16)
    for _ in range(steps):
        loss = model(x).float().square().mean()  # may: launch-bound
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
