#!/usr/bin/env python3
"""Quantisation-aware training for the doorbell's microcontroller: int8 weights, one scale for each output channel."""

import torch
from torch import nn
from torch.autograd import Function


class Int8PerChannel(Function):
    """Rounds to what the chip can hold; the gradient goes straight through."""

    @staticmethod
    def forward(ctx, weight):
        rows = [(w * (127 / w.abs().max())).round() * (w.abs().max() / 127) for w in weight]  # finds: small-kernels
        # mend: top = weight.abs().amax(1, keepdim=True)
        # mend: rows = (weight * (127 / top)).round() * (top / 127)
        return torch.stack(rows)
        # mend: return rows

    @staticmethod
    def backward(ctx, grad):
        return grad


class QuantLinear(nn.Linear):
    def forward(self, x):
        return nn.functional.linear(x, Int8PerChannel.apply(self.weight), self.bias)


def build(features: int, words: int) -> nn.Module:
    return nn.Sequential(
        QuantLinear(features, 320),
        nn.ReLU(),
        QuantLinear(320, 192),
        nn.ReLU(),
        nn.Linear(192, words),
    )


def train(net: nn.Module, sounds: torch.Tensor, labels: torch.Tensor, steps: int, batch: int = 640) -> float:
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, fused=True)
    loss = torch.zeros(())
    for _ in range(steps):
        chosen = torch.randint(len(sounds), (batch,))
        loss = criterion(net(sounds[chosen]), labels[chosen])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return loss.item()


def main(steps: int = 80) -> None:
    torch.manual_seed(17)
    labels = torch.randint(12, (4000,))
    sounds = torch.randn(12, 490)[labels] + 1.5 * torch.randn(4000, 490)
    print(f"last loss {train(build(490, 12), sounds, labels, steps):.4f}")


if __name__ == "__main__":
    main()
