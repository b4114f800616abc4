"""Two towers, compiled, bfloat16 by autocast."""
import torch
from torch import nn


def tower(inp: int, out: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inp, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, out))


class Towers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = tower(300, 128), tower(500, 128)
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        u = nn.functional.normalize(self.a(x), dim=-1)
        v = nn.functional.normalize(self.b(y), dim=-1)
        return self.scale.exp() * u @ v.t()


def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    model = torch.compile(Towers())
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    x, y, target = torch.randn(256, 300), torch.randn(256, 500), torch.arange(256)
    for step in range(steps):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(x, y)
        loss = nn.functional.cross_entropy(logits.float(), target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 50 == 0:
            print("loss", float(loss))


if __name__ == "__main__":
    main()
