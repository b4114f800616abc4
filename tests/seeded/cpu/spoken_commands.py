"""Keyword spotting: every clip's features are computed when the loop asks for it."""
import math

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

SAMPLE_RATE, N_FFT, HOP, N_MELS = 16000, 400, 160, 40


def mel_filters():
    def hz_to_mel(f):
        return 2595.0 * math.log10(1.0 + f / 700.0)

    mels = torch.linspace(hz_to_mel(20), hz_to_mel(7600), N_MELS + 2)
    hz = 700.0 * (10 ** (mels / 2595.0) - 1.0)
    bins = torch.linspace(0, SAMPLE_RATE / 2, N_FFT // 2 + 1)
    up = (bins[None] - hz[:-2, None]) / (hz[1:-1] - hz[:-2])[:, None]
    down = (hz[2:, None] - bins[None]) / (hz[2:] - hz[1:-1])[:, None]
    return torch.minimum(up, down).clamp(min=0)


class SpeechCommands(Dataset):
    def __init__(self, n=4000):
        self.n = n
        self.filters = mel_filters()
        self.window = torch.hann_window(N_FFT)

    def __len__(self):
        return self.n

    def __getitem__(self, idx):
        g = torch.Generator().manual_seed(idx)
        label = idx % 12
        t = torch.arange(SAMPLE_RATE) / SAMPLE_RATE
        wave = torch.sin(2 * math.pi * (200 + 60 * label) * t) + 0.3 * torch.randn(SAMPLE_RATE, generator=g)
        shift = int(torch.randint(-1600, 1600, (1,), generator=g))
        wave = torch.roll(wave, shift)
        spec = torch.stft(wave, N_FFT, HOP, window=self.window, return_complex=True).abs() ** 2
        logmel = torch.log(self.filters @ spec + 1e-6)
        f0 = int(torch.randint(0, N_MELS - 8, (1,), generator=g))
        logmel[f0:f0 + 8] = logmel.mean()
        return logmel, label


class KWSNet(nn.Module):
    def __init__(self, classes=12):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(N_MELS, 64, 9, stride=2, bias=False), nn.BatchNorm1d(64), nn.ReLU(),
            nn.Conv1d(64, 64, 9, stride=2, bias=False), nn.BatchNorm1d(64), nn.ReLU(),
        )
        self.fc = nn.Linear(64, classes)

    def forward(self, x):
        return self.fc(self.conv(x).mean(-1))


def train(epochs=1, max_batches=40):
    torch.manual_seed(0)
    train_loader = DataLoader(SpeechCommands(), batch_size=32, shuffle=True)
    model = KWSNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(epochs):
        for i, (x, y) in enumerate(train_loader):  # finds: data-loading
            if i == max_batches:
                break
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()  # may: single-tensor-optimizer


if __name__ == "__main__":
    train()
