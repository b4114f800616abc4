"""Speech recognition in half precision, compiled: an encoder of mel frames (two one-dimensional convolutions, sinusoids,
attention over 1,500 places), then a few greedy tokens of a decoder with a static key-value cache and cross attention."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

BATCH, BANDS, FRAMES, WIDTH, HEADS, WORDS, TOKENS = 16, 80, 3000, 1024, 16, 51865, 2
ENCODER_LAYERS, DECODER_LAYERS, CONTEXT, START = 3, 2, 448, 40


def sinusoids(length: int, width: int) -> torch.Tensor:
    scale = torch.exp(-math.log(10000) / (width // 2 - 1) * torch.arange(width // 2))
    angle = torch.arange(length)[:, None] * scale[None]
    return torch.cat((angle.sin(), angle.cos()), 1)


def split(x: torch.Tensor) -> torch.Tensor:
    return x.view(x.shape[0], x.shape[1], HEADS, -1).transpose(1, 2)


def join(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(1, 2).flatten(2)


class Block(nn.Module):
    def __init__(self, cross: bool) -> None:
        super().__init__()
        self.n1, self.n2, self.n3 = (nn.LayerNorm(WIDTH) for _ in range(3))
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH, bias=i != 1) for i in range(4))
        if cross:
            self.cross_q, self.cross_out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
            self.cross_k, self.cross_v = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def perceptron(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.n3(x))))

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        y = self.n1(x)
        y = F.scaled_dot_product_attention(split(self.q(y)), split(self.k(y)), split(self.v(y)))
        return self.perceptron(x + self.out(join(y)))

    def decode(
        self, x: torch.Tensor, cache: torch.Tensor, sound: torch.Tensor, place: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        y = self.n1(x)
        cache[0].index_copy_(2, place, split(self.k(y)))
        cache[1].index_copy_(2, place, split(self.v(y)))
        x = x + self.out(join(F.scaled_dot_product_attention(split(self.q(y)), cache[0], cache[1], mask)))
        y = F.scaled_dot_product_attention(split(self.cross_q(self.n2(x))), sound[0], sound[1])
        return self.perceptron(x + self.cross_out(join(y)))


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    front = nn.ModuleList((nn.Conv1d(BANDS, WIDTH, 3, 1, 1), nn.Conv1d(WIDTH, WIDTH, 3, 2, 1))).cuda().half()
    encoder = nn.ModuleList(Block(False) for _ in range(ENCODER_LAYERS)).cuda().half().eval()
    decoder = nn.ModuleList(Block(True) for _ in range(DECODER_LAYERS)).cuda().half().eval()
    norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2)).cuda().half()
    words, places = nn.Embedding(WORDS, WIDTH).cuda().half(), nn.Embedding(CONTEXT, WIDTH).cuda().half()
    waves = sinusoids(FRAMES // 2, WIDTH).cuda().half()
    mel = torch.randn(BATCH, BANDS, FRAMES, device="cuda").half()
    caches = [torch.zeros(2, BATCH, HEADS, CONTEXT, WIDTH // HEADS, device="cuda").half() for _ in decoder]
    steps = [torch.tensor([START + i], device="cuda") for i in range(TOKENS)]

    @torch.compile
    def listen(mel: torch.Tensor) -> list[torch.Tensor]:
        x = F.gelu(front[1](F.gelu(front[0](mel)))).transpose(1, 2) + waves
        for block in encoder:
            x = block.encode(x)
        x = norms[0](x)
        return [torch.stack((split(block.cross_k(x)), split(block.cross_v(x)))) for block in decoder]

    @torch.compile
    def write(token: torch.Tensor, place: torch.Tensor, sounds: list[torch.Tensor]) -> torch.Tensor:
        mask = (torch.arange(CONTEXT, device=token.device) <= place)[None, None, None]
        x = words(token) + places(place)
        for block, cache, sound in zip(decoder, caches, sounds, strict=True):
            x = block.decode(x, cache, sound, place, mask)
        return (norms[1](x) @ words.weight.T).float().argmax(-1)

    def step() -> None:
        with torch.no_grad():
            sounds, token = listen(mel), torch.full((BATCH, 1), 1, device="cuda")
            for place in steps:
                token = write(token, place, sounds)

    return step
