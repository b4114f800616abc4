"""A neural differential equation learned from a spiral, solved by Runge-Kutta of fourth order."""
import torch
import torch.nn as nn


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 2))

    def forward(self, t, y):
        return self.net(y**3)


def rk4(f, y, t):
    out = [y]
    for n in range(len(t) - 1):
        a, b = t[n], t[n + 1]
        h = b - a
        k1 = f(a, y)
        k2 = f(a + h / 2, y + h / 2 * k1)
        k3 = f(a + h / 2, y + h / 2 * k2)
        k4 = f(b, y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        out.append(y)
    return torch.stack(out)


def main(iters=12):
    torch.manual_seed(0)
    t = torch.linspace(0.0, 1.0, 21)
    matrix = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
    field = Field()
    optimizer = torch.optim.RMSprop(field.parameters(), lr=1e-3)
    for i in range(iters):
        y0 = torch.randn(512, 2)
        with torch.no_grad():
            target = rk4(lambda t, y: y**3 @ matrix, 0.5 * y0.clamp(-1, 1), t)
        loss = (rk4(field, 0.5 * y0.clamp(-1, 1), t) - target).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % 20 == 0:
            print(i, loss.item())


if __name__ == "__main__":
    main()
