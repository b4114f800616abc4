"""A forecaster of electricity demand whose gradients are clipped as an answer on a forum has it."""
import torch
import torch.nn as nn


class Forecaster(nn.Module):
    def __init__(self, n_features=7, hidden=192, horizon=24):
        super().__init__()
        self.rnn = nn.LSTM(n_features, hidden, num_layers=2, batch_first=True, dropout=0.1)
        self.head = nn.Linear(hidden, horizon)

    def forward(self, x):
        out, _ = self.rnn(x)
        return self.head(out[:, -1])


def clip_gradients(model, max_norm):
    total_norm = 0.0
    for p in model.parameters():
        if p.grad is not None:
            total_norm += p.grad.data.norm(2).item() ** 2  # finds: hidden-sync
    total_norm = total_norm ** 0.5
    scale = max_norm / (total_norm + 1e-6)
    if scale < 1:
        for p in model.parameters():
            if p.grad is not None:
                p.grad.data.mul_(scale)
    return total_norm


def main(epochs=3):
    torch.manual_seed(0)
    hours = torch.arange(2000).float()
    series = torch.stack([torch.sin(hours * w) for w in (0.26, 0.037, 0.52, 0.11, 0.9, 0.05, 0.7)], dim=1)
    series += 0.1 * torch.randn_like(series)
    windows = series.unfold(0, 96 + 24, 8).transpose(1, 2)  # (N, 120, 7)
    model = Forecaster()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.MSELoss()
    for _ in range(epochs):
        perm = torch.randperm(len(windows))
        for i in range(0, len(windows) - 32, 32):
            batch = windows[perm[i:i + 32]]
            x, y = batch[:, :96], batch[:, 96:, 0]
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            clip_gradients(model, 1.0)
            optimizer.step()


if __name__ == "__main__":
    main()
