"""House prices from a table that stays a data frame."""
import numpy as np
import pandas as pd
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

FEATURES = [f"f{i}" for i in range(24)]


class Houses(Dataset):
    def __init__(self, df):
        self.df = df

    def __len__(self):
        return len(self.df)

    def __getitem__(self, i):
        row = self.df.iloc[i]
        x = row[FEATURES].to_numpy(dtype=np.float32)
        return torch.from_numpy(x), torch.tensor(row["price"], dtype=torch.float32)


def main(epochs=1):
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    df = pd.DataFrame(rng.normal(size=(4096, 24)), columns=FEATURES)
    df["price"] = df[FEATURES].sum(axis=1)
    loader = DataLoader(Houses(df), batch_size=64, shuffle=True)
    net = nn.Sequential(nn.Linear(24, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 1))
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(epochs):
        for x, y in loader:  # finds: data-loading
            loss = nn.functional.mse_loss(net(x).squeeze(1), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
