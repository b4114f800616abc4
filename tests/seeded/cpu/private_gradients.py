"""Differentially private training: the gradient of every sample is clipped by itself, sample after sample."""
import torch
import torch.nn as nn
import torch.nn.functional as F

MAX_NORM, NOISE = 1.0, 0.8


def make_model():
    return nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))


def dp_step(model, x, y, lr):
    params = [p for p in model.parameters() if p.requires_grad]
    summed = [torch.zeros_like(p) for p in params]
    for i in range(len(x)):
        loss = F.cross_entropy(model(x[i:i + 1]), y[i:i + 1])  # finds: small-kernels
        grads = torch.autograd.grad(loss, params)  # may: small-kernels
        norm = torch.sqrt(sum(g.pow(2).sum() for g in grads))  # may: small-kernels
        coef = (MAX_NORM / (norm + 1e-6)).clamp(max=1.0)  # may: small-kernels
        for s, g in zip(summed, grads):
            s.add_(g * coef)  # may: small-kernels
    with torch.no_grad():
        for p, s in zip(params, summed):
            noise = NOISE * MAX_NORM * torch.randn_like(s)
            p.add_((s + noise) / len(x), alpha=-lr)


def main(steps=16, batch=64):
    torch.manual_seed(0)
    model = make_model()
    data, target = torch.randn(4096, 30), torch.randint(0, 2, (4096,))
    for _ in range(steps):
        idx = torch.randint(0, len(data), (batch,))
        dp_step(model, data[idx], target[idx], lr=0.05)


if __name__ == "__main__":
    main()
