"""Images are decoded in the training process."""
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(0.002)  # stands for reading and decoding
        return torch.full((3, 16, 16), index % 5 / 5), index % 10


def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(768, 256), nn.ReLU(), nn.Linear(256, 10))
    opt = torch.optim.SGD(model.parameters(), lr=1e-2)
    loader = DataLoader(Images(), batch_size=16)
    # mend: loader = DataLoader(Images(), batch_size=16, num_workers=8, persistent_workers=True)
    for step, (x, y) in enumerate(loader):  # finds: data-loading
        if step == steps:
            break
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
