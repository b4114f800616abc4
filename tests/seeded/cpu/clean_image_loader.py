"""Bytes of images from memory, one batch a read."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Batches(Dataset):
    def __init__(self) -> None:
        self.images = torch.randint(256, (1024, 3, 32, 32), dtype=torch.uint8)
        self.labels = torch.randint(10, (1024,))

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        rows = slice(index * 32, index * 32 + 32)
        return self.images[rows], self.labels[rows]


def main(steps: int = 30) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 48, 3, 2, 1), nn.GELU(), nn.Conv2d(48, 96, 3, 2, 1), nn.GELU(), nn.Flatten(), nn.Linear(6144, 10))
    opt = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9, fused=True)
    step = 0
    while step < steps:
        for x, y in DataLoader(Batches(), batch_size=None, shuffle=True):
            loss = nn.functional.cross_entropy(model(x.float() / 255.0), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            if step == steps:
                break


if __name__ == "__main__":
    main()
