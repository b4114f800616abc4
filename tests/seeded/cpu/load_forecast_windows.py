"""Forecasting the load of a power grid from windows that the dataset cuts out and normalises one by one."""
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Windows(Dataset):
    def __init__(self, series, past=336, future=24):
        self.series, self.past, self.future = series, past, future

    def __len__(self):
        return len(self.series) - self.past - self.future

    def __getitem__(self, i):
        window = np.array(self.series[i : i + self.past + self.future])
        calendar = np.array([[np.sin(2 * np.pi * h / p) for p in (24, 168)] for h in range(i, i + self.past)])
        mean, std = window[: self.past].mean(), window[: self.past].std() + 1e-6
        window = (window - mean) / std
        x = np.column_stack([window[: self.past], calendar]).astype(np.float32)
        return torch.from_numpy(x), torch.from_numpy(window[self.past :].astype(np.float32))


class Forecaster(nn.Module):
    def __init__(self, past=336, future=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(3, 32, 5, padding=2), nn.ReLU(), nn.Conv1d(32, 32, 5, stride=4, padding=2), nn.ReLU(), nn.Flatten())
        self.head = nn.Linear(32 * past // 4, future)

    def forward(self, x):
        return self.head(self.net(x.transpose(1, 2)))


def main(steps=40):
    torch.manual_seed(0)
    hours = np.arange(20_000)
    series = (10 + np.sin(hours / 24) + np.random.default_rng(0).normal(0, 0.1, len(hours))).tolist()
    loader = DataLoader(Windows(series), batch_size=32, shuffle=True)
    model = Forecaster()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_fn = nn.HuberLoss()
    for step, (x, y) in enumerate(loader):  # finds: data-loading
        if step == steps:
            break
        loss = loss_fn(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
