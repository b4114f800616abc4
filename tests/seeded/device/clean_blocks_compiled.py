"""Pretraining with every block compiled, as one goes on for days: autocast, clipping, a schedule, and a loss kept on the device."""
import logging
import math

import torch
from torch import nn
from torch.nn import functional as F

device = "cuda"
log = logging.getLogger("pretrain")


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, 4 * width, bias=False), nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.norm1(x)).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Model(nn.Module):
    def __init__(self, vocabulary: int = 16_384, width: int = 1024, depth: int = 4) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, 16) for _ in range(depth))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Trainer:
    def __init__(self, model: Model, lr: float = 3e-4) -> None:
        self.model = model
        for block in model.blocks:
            block.compile()
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.95), fused=True)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: 0.5 + 0.5 * math.cos(step / 3200))
        self.running = torch.zeros((), device=device)

    def step(self, tokens: torch.Tensor) -> None:
        with torch.autocast(device, dtype=torch.bfloat16):
            logits = self.model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad()
        self.running += loss.detach()


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    trainer = Trainer(Model().to(device))
    batches = [torch.randint(16_384, (16, 1025), device=device) for _ in range(4)]
    for step in range(steps):
        trainer.step(batches[step % 4])
        if (step + 1) % 200 == 0:
            log.info("step %d mean loss %.4f", step + 1, float(trainer.running) / (step + 1))
    print(f"mean loss {float(trainer.running) / steps:.4f}")


if __name__ == "__main__":
    main()
