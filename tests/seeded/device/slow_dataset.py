"""Decoding in the training process, one sample after another."""
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

device = "cuda"


class Images(Dataset):
    def __len__(self) -> int:
        return 4096

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.0006)  # stands for decoding
        return torch.full((512,), float(index % 7))


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(512, 4096), nn.ReLU(), nn.Linear(4096, 512)).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader = DataLoader(Images(), batch_size=32, pin_memory=True)
    # mend: loader = DataLoader(Images(), batch_size=32, pin_memory=True, num_workers=8, persistent_workers=True)
    for step, x in enumerate(loader):  # finds: data-loading
        if step == steps:
            break
        x = x.to(device, non_blocking=True)
        loss = (model(x) - x).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
