"""Two workers, each sample as slow as the whole step."""
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Clips(Dataset):
    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.012)  # stands for a read over the network
        return torch.full((256,), float(index % 3))


def main(steps: int = 50) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256))
    opt = torch.optim.SGD(model.parameters(), lr=1e-2)
    loader = DataLoader(Clips(), batch_size=8, num_workers=2, persistent_workers=True)
    for step, x in enumerate(loader):  # finds: data-loading
        if step == steps:
            break
        loss = (model(x) - x).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
