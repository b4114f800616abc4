"""Writes the generated modules of five programs, forward and backward, and of odd inputs, into a folder: ``FOLDER``."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._inductor.utils import run_and_get_code
from torch.nn import functional as F

OUT = Path(sys.argv[1])
torch.manual_seed(0)
torch._dynamo.config.capture_dynamic_output_shape_ops = True
torch._dynamo.config.capture_scalar_outputs = True


def write(name: str, function: Callable[..., Any], *inputs: torch.Tensor, dynamic: bool | None = None) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(function, dynamic=dynamic)

    def step() -> None:
        result = compiled(*inputs)
        if result.requires_grad:
            result.sum().backward()

    _, codes = run_and_get_code(step)
    for number, code in enumerate(codes):
        (OUT / f"c{name}{number}.py").write_text(code)


class Classifier(nn.Module):
    """A training step's loss."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 10))

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.layers(x), target)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.qkv, self.out = nn.Embedding(500, 64), nn.Linear(64, 192), nn.Linear(64, 64)
        self.norm, self.up, self.down = nn.LayerNorm(64), nn.Linear(64, 128), nn.Linear(128, 64)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.table(tokens)
        q, k, v = (t.view(4, 32, 4, 16).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(4, 32, 64)
        x = x + self.out(mixed)
        return x + self.down(F.gelu(self.up(x)))


def parameter(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


def masked(x: torch.Tensor, mask: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (x[mask] @ w).sin().sum()


write("mlp", Classifier(), torch.randn(64, 64), torch.randint(0, 10, (64,)))
write("transformer", Block(), torch.randint(0, 500, (4, 32)))
convolution = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3)
)
write("convolution", convolution, torch.randn(4, 3, 32, 32))
write("softmax", lambda x, w: F.layer_norm(torch.softmax(x, -1) * w, (64,)), parameter(128, 64), torch.randn(64))
write("dynamic", lambda x, w: F.relu(x @ w).softmax(-1).mean(0), parameter(48, 32), parameter(32, 16), dynamic=True)

write("zero", lambda x: torch.cos(x) + 1, torch.randn(0, 16))
pair = torch.randn(2, 8, 8, dtype=torch.complex64)
write("complex", lambda x, y: (x * y).real.sin() + 1, pair[0].clone(), pair[1].clone())
write("item", lambda x, n: torch.zeros(n.item(), 8) + x.cos(), torch.randn(8), torch.tensor(100))
write("mask", masked, torch.randn(64, 4), torch.rand(64) > 0.5, parameter(4, 8))
