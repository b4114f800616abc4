"""Kernels from Inductor's templates: products with fused epilogues by max-autotune over Triton alone (few configurations,
so that compilation stays short), batched products, combined pointwise and reduction kernels, a foreach optimizer that is
compiled, float16."""

from __future__ import annotations

import torch
import torch._inductor.config as inductor
import torch.nn.functional as F
from torch import nn

inductor.max_autotune_gemm_backends = "TRITON"
inductor.test_configs.max_mm_configs = 2
inductor.combo_kernels = True
inductor.benchmark_combo_kernel = False

TOKENS, WIDTH, HIDDEN, HEADS = 8192, 1024, 4096, 16


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)
        self.narrow, self.norm = nn.Linear(WIDTH, 192, bias=False), nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        hidden = F.gelu(self.up(x), approximate="tanh")
        blocks = x.view(16, -1, WIDTH)
        scores = torch.softmax(torch.bmm(blocks, blocks.transpose(1, 2)) * WIDTH**-0.5, -1)
        mixed = torch.bmm(scores, blocks).view_as(x)
        return self.norm(self.down(hidden) + mixed), F.silu(self.narrow(x)), y.exp().sum(-1), x.sin().mean(-1)


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    model = Net().cuda().half()
    run = torch.compile(model, mode="max-autotune-no-cudagraphs")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True, capturable=True)
    x, y = (torch.randn(TOKENS, WIDTH, device="cuda").half() * 0.1 for _ in range(2))
    update = torch.compile(optimizer.step)

    def step() -> None:
        loss = sum(out.float().pow(2).mean() for out in run(x, y))
        loss.backward()
        update()
        optimizer.zero_grad(set_to_none=True)

    return step
