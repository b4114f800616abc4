"""Images are augmented in NumPy, in the training process."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Augmented(Dataset):
    def __init__(self, count: int = 4096) -> None:
        self.count = count
        self.rng = np.random.default_rng(0)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        image = self.rng.random((3, 64, 64), dtype=np.float32)
        for axis in (1, 2):
            image = 0.25 * np.roll(image, 1, axis) + 0.5 * image + 0.25 * np.roll(image, -1, axis)
        image = np.clip((image - image.mean()) / (image.std() + 1e-6), -3, 3)
        return np.ascontiguousarray(image[:, ::2, ::2]), index % 10


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(2048, 10))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    loader = DataLoader(Augmented(), batch_size=32, shuffle=True)
    # mend: loader = DataLoader(Augmented(), batch_size=32, shuffle=True, num_workers=2, persistent_workers=True)
    for step, (x, y) in enumerate(loader):  # finds: data-loading
        if step == steps:
            break
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
