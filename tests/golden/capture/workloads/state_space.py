"""A selective state-space layer in chunks, in the manner of Mamba 2, compiled, bfloat16, forward and backward: causal
depthwise convolution, softplus steps, cumulative sums, a masked exponential decay within chunks, einsums, a recurrence
over chunks, a gated RMS norm."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

BATCH, LENGTH, WIDTH, HEADS, STATE, CHUNK = 4, 2048, 1024, 16, 64, 128
HEAD = WIDTH // HEADS


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.gated_norm = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.into = nn.Linear(WIDTH, 2 * WIDTH + 2 * STATE + HEADS, bias=False)
        self.conv = nn.Parameter(torch.randn(4, WIDTH + 2 * STATE) * 0.3)
        self.rate, self.skip = nn.Parameter(torch.zeros(HEADS)), nn.Parameter(torch.ones(HEADS))
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def scan(self, x: torch.Tensor, decay: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        """``x`` [batch, chunks, l, heads, p], ``decay`` [batch, chunks, heads, l], ``b`` and ``c`` [batch, chunks, l, n]."""
        total = decay.cumsum(-1)
        later = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=x.device).tril()
        within = (total[..., :, None] - total[..., None, :]).masked_fill(~later, float("-inf")).exp().to(x.dtype)
        score = torch.einsum("zcln,zcsn->zcls", c, b)
        near = torch.einsum("zchls,zcshp->zclhp", within * score[:, :, None], x)
        left = (total[..., -1:] - total).exp().to(x.dtype)
        states = torch.einsum("zcln,zclhp->zchpn", b, x * left.transpose(2, 3)[..., None])
        ends = F.pad(total[..., -1].transpose(1, 2), (1, 0)).cumsum(-1)
        chunks = ends.shape[-1]
        before = torch.ones(chunks, chunks, dtype=torch.bool, device=x.device).tril()
        across = (ends[..., :, None] - ends[..., None, :]).masked_fill(~before, float("-inf")).exp().to(x.dtype)
        carried = torch.einsum("zhtc,zchpn->zthpn", across[..., :-1, 1:], states)
        far = torch.einsum("zcln,zchpn->zclhp", c, carried) * total.exp().to(x.dtype).transpose(2, 3)[..., None]
        return near + far

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z, mixed, pace = self.into(self.norm(x)).split([WIDTH, WIDTH + 2 * STATE, HEADS], -1)
        padded = F.pad(mixed, (0, 0, 3, 0))
        mixed = F.silu(sum(padded[:, i : i + x.shape[1]] * self.conv[i] for i in range(4)))
        values, b, c = mixed.unflatten(1, (-1, CHUNK)).split([WIDTH, STATE, STATE], -1)
        values = values.unflatten(-1, (HEADS, HEAD))
        pace = F.softplus(pace.float()).unflatten(1, (-1, CHUNK))
        decay = (-self.rate.float().exp() * pace).transpose(2, 3)
        y = self.scan(values * pace.to(x.dtype)[..., None], decay, b, c) + values * self.skip[:, None]
        return x + self.out(self.gated_norm(y.reshape(x.shape) * F.silu(z)))


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    model = Layer().cuda().bfloat16()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
    forward = torch.compile(model)
    x = torch.randn(BATCH, LENGTH, WIDTH, device="cuda").bfloat16()

    def step() -> None:
        (forward(x).float() - x.roll(-1, 1)).abs().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step
