"""Fine-tuning with accumulated gradients; a meter keeps the running loss of every micro-batch."""
import logging

import torch
from torch import nn
from torch.nn import functional as F

device = "cuda"
log = logging.getLogger("finetune")


class Meter:
    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def update(self, value: float, n: int) -> None:
        self.total += value * n
        self.count += n

    def average(self) -> float:
        return float(self.total) / max(1, self.count)


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        y = self.norm1(x)
        q, k, v = (p(y).view(b, t, self.heads, -1).transpose(1, 2) for p in (self.q, self.k, self.v))  # may: launch-bound
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class LanguageModel(nn.Module):
    def __init__(self, vocabulary: int = 4096, width: int = 1024, depth: int = 4) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.Sequential(*[Block(width, 16) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.blocks(self.embed(tokens))))


class Trainer:
    def __init__(self, model: nn.Module, accumulate: int = 4, log_every: int = 100) -> None:
        self.model, self.accumulate, self.log_every = model, accumulate, log_every
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, fused=True)
        self.meter = Meter()

    def micro_step(self, tokens: torch.Tensor) -> None:
        logits = self.model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].reshape(-1))
        self.meter.update(loss.item(), tokens.shape[0])  # finds: hidden-sync
        # mend: self.meter.update(loss.detach(), tokens.shape[0])
        (loss / self.accumulate).backward()

    def fit(self, batches: list[torch.Tensor], steps: int) -> float:
        for step in range(steps):
            for k in range(self.accumulate):
                self.micro_step(batches[(step + k) % len(batches)])
            self.optimizer.step()
            self.optimizer.zero_grad()
            if (step + 1) % self.log_every == 0:
                log.info("step %d loss %.4f", step, self.meter.average())
        return self.meter.average()


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    model = LanguageModel().to(device, torch.bfloat16)
    batches = [torch.randint(4096, (8, 513), device=device) for _ in range(8)]
    log.info("done, %.4f", Trainer(model).fit(batches, steps))


if __name__ == "__main__":
    main()
