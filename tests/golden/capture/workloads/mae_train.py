"""A pretraining step of a masked autoencoder on images, compiled, bfloat16 weights: three quarters of the patches
dropped by sorting noise, a wide encoder over the rest, mask tokens put back, a narrower decoder over all, error on the
normalised pixels of the dropped patches, AdamW."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

BATCH, IMAGE, PATCH, WIDTH, NARROW, HEAD = 128, 224, 16, 1024, 512, 64
TOKENS, KEEP, PIXELS = (IMAGE // PATCH) ** 2, (IMAGE // PATCH) ** 2 // 4, PATCH * PATCH * 3


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, w = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, s, 3, w // HEAD, HEAD).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, s, w))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class MaskedAutoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Linear(PIXELS, WIDTH)
        self.register_buffer("place", torch.randn(1, TOKENS, WIDTH) * 0.02)
        self.register_buffer("decoder_place", torch.randn(1, TOKENS, NARROW) * 0.02)
        self.encoder, self.encoder_norm = Block(WIDTH), nn.LayerNorm(WIDTH, eps=1e-6)
        self.narrow, self.mask = nn.Linear(WIDTH, NARROW), nn.Parameter(torch.randn(1, 1, NARROW) * 0.02)
        self.decoder, self.decoder_norm = Block(NARROW), nn.LayerNorm(NARROW, eps=1e-6)
        self.pixels = nn.Linear(NARROW, PIXELS)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        b, n = image.shape[0], IMAGE // PATCH
        target = image.view(b, 3, n, PATCH, n, PATCH).permute(0, 2, 4, 3, 5, 1).reshape(b, TOKENS, PIXELS)
        order = torch.rand(b, TOKENS, device=image.device).argsort(1)
        restore = order.argsort(1)
        x = self.patch(target) + self.place
        x = x.gather(1, order[:, :KEEP, None].expand(-1, -1, WIDTH))
        x = self.narrow(self.encoder_norm(self.encoder(x)))
        x = torch.cat((x, self.mask.to(x.dtype).expand(b, TOKENS - KEEP, -1)), 1)
        x = x.gather(1, restore[:, :, None].expand(-1, -1, NARROW)) + self.decoder_place
        guess = self.pixels(self.decoder_norm(self.decoder(x)))
        target = target.float()
        mean, var = target.mean(-1, keepdim=True), target.var(-1, keepdim=True)
        target = (target - mean) / (var + 1e-6).sqrt()
        error = (guess - target).pow(2).mean(-1)
        dropped = (restore >= KEEP).float()
        return (error * dropped).sum() / dropped.sum()


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    model = MaskedAutoencoder().cuda().bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.5e-4, betas=(0.9, 0.95), weight_decay=0.05, fused=True)
    image = torch.randn(BATCH, 3, IMAGE, IMAGE, device="cuda").bfloat16()
    compiled = torch.compile(model)

    def step() -> None:
        compiled(image).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step
