"""A vision transformer's recipe: decay for matrices alone, warm-up, and an optimizer that was to save memory."""
import math

import torch
from torch import nn
from torch.nn import functional as F

device = "cuda"


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, c))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class VisionTransformer(nn.Module):
    def __init__(self, width: int = 384, depth: int = 12, classes: int = 1000) -> None:
        super().__init__()
        self.embed = nn.Linear(768, width)
        self.position = nn.Parameter(torch.zeros(1, 196, width))
        self.blocks = nn.Sequential(*[Block(width, 6) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.blocks(self.embed(patches) + self.position)).mean(1))


def build_optimizer(model: nn.Module, lr: float, decay: float) -> torch.optim.Optimizer:
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95), foreach=False)
    # mend: return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95), fused=True)


class Trainer:
    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.optimizer = build_optimizer(model, 1e-3, 0.05)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self.rate)

    @staticmethod
    def rate(step: int) -> float:
        return min(1.0, (step + 1) / 200) * 0.5 * (1.0 + math.cos(math.pi * min(step, 10_000) / 10_000))

    def train_step(self, patches: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = F.cross_entropy(self.model(patches), labels, label_smoothing=0.1)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()  # finds: single-tensor-optimizer
        self.schedule.step()
        return loss.detach()


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    trainer = Trainer(VisionTransformer().to(device))
    patches = torch.randn(128, 196, 768, device=device)
    labels = torch.randint(1000, (128,), device=device)
    for _ in range(steps):
        loss = trainer.train_step(patches, labels)
    print(f"loss {float(loss):.3f}")


if __name__ == "__main__":
    main()
