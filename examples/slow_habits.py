"""A training loop with six habits that cost time. Each is marked with what to do instead.

Everything here is found in real programs; none of it changes what is learned.
"""

from __future__ import annotations

import argparse
import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

LENGTH = 64


class Sensors(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Windows of a noisy signal, and the frequency to be guessed."""

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        # Habit 1: an example is computed in plain Python, number by number. Instead: one tensor expression.
        frequency = 1.0 + index % 17
        wave = [math.sin(frequency * t / LENGTH * 2 * math.pi) + 0.1 * math.cos(7 * t + index) for t in range(LENGTH)]
        return torch.tensor(wave), torch.tensor([frequency])


class Guess(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(LENGTH, width)
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.last = nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # Habit 2: a constant is built again in every step. Instead: register_buffer in __init__.
        window = torch.tensor([0.5 - 0.5 * math.cos(2 * math.pi * t / LENGTH) for t in range(LENGTH)]).to(x.device)
        x = F.relu(self.first(x * window))
        for layer in self.hidden:
            x = F.relu(layer(x))
        return self.last(x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    device = torch.device(options.device)

    torch.manual_seed(0)
    # Habit 3: the loop waits while each batch is made. Instead: num_workers=4, pin_memory=True on a GPU.
    data = DataLoader(Sensors(), batch_size=128, shuffle=True, num_workers=0)
    model = Guess(256).to(device)
    # Habit 4: one small kernel after another for each parameter. Instead: the default, or fused=True.
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=False)

    history: list[float] = []
    for step, (waves, frequencies) in enumerate(data):
        if step == options.steps:
            break
        waves, frequencies = waves.to(device), frequencies.to(device)
        loss = F.mse_loss(model(waves), frequencies)
        optimizer.zero_grad()
        loss.backward()
        # Habit 5: every gradient is looked at in every step. Instead: clip_grad_norm_, which asks once, and seldom.
        for parameter in model.parameters():
            if not torch.isfinite(parameter.grad).all():
                raise ValueError("a gradient is not finite")
        optimizer.step()
        # Habit 6: .item() waits for the device in every step. Instead: keep loss.detach(), ask every hundredth step.
        history.append(loss.item())
    print(f"loss {sum(history[:10]) / 10:.2f} -> {sum(history[-10:]) / 10:.2f} in {len(history)} steps")


if __name__ == "__main__":
    main()
