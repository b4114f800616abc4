"""What the awkward programs share: a small model and one step of its training."""

import torch
from torch import nn


def make():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
    return model, torch.optim.SGD(model.parameters(), lr=1e-2)


def step(model, optimizer, x=None):
    x = torch.randn(32, 64) if x is None else x
    loss = (model(x) - x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def train(steps=30):
    model, optimizer = make()
    for _ in range(steps):
        loss = step(model, optimizer)
    return loss
