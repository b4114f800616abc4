import sys

import torch
from small import make, step
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 32 * 12

    def __getitem__(self, i):
        return torch.full((64,), float(i))


if __name__ == "__main__":
    model, optimizer = make()
    for _ in range(2):
        for x in DataLoader(Numbers(), batch_size=32, num_workers=2, multiprocessing_context=sys.argv[1]):
            loss = step(model, optimizer, x / 384)
    print(f"{loss.item():.6f}")
