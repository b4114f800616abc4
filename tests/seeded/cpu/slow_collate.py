"""The collate function sorts and pads in Python."""
import torch
from torch import nn
from torch.utils.data import DataLoader


def collate(rows: list[list[float]]) -> torch.Tensor:
    width = max(len(row) for row in rows)
    padded = [sorted(row) + [0.0] * (width - len(row)) for row in rows]
    for _ in range(6):
        padded = [[value * 0.5 + 0.25 for value in row] for row in padded]
    return torch.tensor(padded)


def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    rows = [[float((i * k) % 97) for k in range(512)] for i in range(512)]
    model = nn.Sequential(nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 1))
    opt = torch.optim.SGD(model.parameters(), lr=1e-5)
    done = 0
    while done < steps:
        for x in DataLoader(rows, batch_size=64, collate_fn=collate):  # finds: data-loading
            loss = model(x).square().mean()
            loss.backward()
            opt.step()
            opt.zero_grad()
            done += 1


if __name__ == "__main__":
    main()
