"""Learning to learn sine waves: an inner step for each task, an outer one for all."""
import torch
import torch.nn as nn
from torch.func import functional_call, grad, vmap


def main(steps=20, tasks=16, shots=64):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(1, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 1))
    params = dict(net.named_parameters())
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)

    def loss_fn(p, x, y):
        return nn.functional.mse_loss(functional_call(net, p, (x,)), y)

    def adapted(x1, y1, x2, y2):
        g = grad(loss_fn)(params, x1, y1)
        fast = {k: params[k] - 0.01 * g[k] for k in params}
        return loss_fn(fast, x2, y2)

    for _ in range(steps):
        amplitude, phase = torch.rand(tasks, 1, 1) * 4.9 + 0.1, torch.rand(tasks, 1, 1) * 3.14
        x1, x2 = torch.rand(tasks, shots, 1) * 10 - 5, torch.rand(tasks, shots, 1) * 10 - 5
        y1, y2 = amplitude * torch.sin(x1 + phase), amplitude * torch.sin(x2 + phase)
        loss = vmap(adapted)(x1, y1, x2, y2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
