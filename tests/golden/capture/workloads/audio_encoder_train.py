"""A speech encoder in the manner of Conformer, compiled, trained in float32 with TF32 products: strided one-dimensional
convolutions over mel bands, attention with a learnt bias by distance, a gated convolution module with a depthwise
kernel of 31 and batch norm, a SiLU perceptron, connectionist temporal classification, fused Adam."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

BATCH, FRAMES, BANDS, WIDTH, HEADS, TOKENS = 16, 2048, 80, 512, 8, 1024
KEPT, WORDS, REACH = FRAMES // 4, 60, 128


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.front = nn.Conv1d(BANDS, WIDTH, 3, 2, 1)
        self.second = nn.Conv1d(WIDTH, WIDTH, 3, 2, 1)
        self.n1, self.n2, self.n3 = (nn.LayerNorm(WIDTH) for _ in range(3))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.bias = nn.Parameter(torch.zeros(HEADS, 2 * REACH + 1))
        self.gated = nn.Conv1d(WIDTH, 2 * WIDTH, 1, bias=False)
        self.depthwise = nn.Conv1d(WIDTH, WIDTH, 31, padding=15, groups=WIDTH, bias=False)
        self.batch_norm, self.mix = nn.BatchNorm1d(WIDTH), nn.Conv1d(WIDTH, WIDTH, 1, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)
        self.head = nn.Linear(WIDTH, TOKENS)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        b, s, _ = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        place = torch.arange(s, device=x.device)
        distance = (place[None] - place[:, None]).clamp(-REACH, REACH) + REACH
        score = q @ k.transpose(-2, -1) * (WIDTH // HEADS) ** -0.5 + self.bias[:, distance]
        return self.out((F.dropout(score.softmax(-1), 0.1, self.training) @ v).transpose(1, 2).reshape(b, s, WIDTH))

    def convolve(self, x: torch.Tensor) -> torch.Tensor:
        y = self.depthwise(F.glu(self.gated(x.transpose(1, 2)), 1))
        return self.mix(F.silu(self.batch_norm(y))).transpose(1, 2)

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        x = F.gelu(self.second(F.gelu(self.front(mel)))).transpose(1, 2)
        x = x + self.attend(self.n1(x))
        x = x + self.convolve(self.n2(x))
        x = x + 0.5 * F.dropout(self.down(F.silu(self.up(self.n3(x)))), 0.1, self.training)
        return self.head(x).log_softmax(-1).transpose(0, 1)


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    model = Encoder().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    encode = torch.compile(model)
    mel = torch.randn(BATCH, BANDS, FRAMES, device="cuda")
    words = torch.randint(1, TOKENS, (BATCH, WORDS), device="cuda")

    def step() -> None:
        F.ctc_loss(encode(mel), words, [KEPT] * BATCH, [WORDS] * BATCH).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step
