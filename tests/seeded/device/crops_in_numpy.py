"""Random crops, flips and colours by NumPy, in the process that trains."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

device = "cuda"
MEAN, STD = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])


class Augmented(Dataset):
    def __init__(self, kept: int = 256, side: int = 160, crop: int = 128) -> None:
        self.images = np.random.default_rng(0).integers(0, 256, (kept, side, side, 3), dtype=np.uint8)
        self.crop, self.rng = crop, np.random.default_rng(1)

    def __len__(self) -> int:
        return 262_144

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        image = self.images[index % len(self.images)]
        top, left = self.rng.integers(0, image.shape[0] - self.crop, 2)
        image = image[top : top + self.crop, left : left + self.crop].astype(np.float32) / 255.0
        if self.rng.random() < 0.5:
            image = image[:, ::-1]
        image = np.clip(image * self.rng.uniform(0.8, 1.2) + self.rng.uniform(-0.1, 0.1), 0.0, 1.0)
        image = (image - MEAN) / STD
        return np.ascontiguousarray(image.transpose(2, 0, 1), dtype=np.float32), index % 10


def network(width: int = 256) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv2d(3, width, 4, stride=2, padding=1), nn.ReLU()]
    for _ in range(5):
        layers += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    model = network().to(device, torch.bfloat16, memory_format=torch.channels_last)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True)
    loader = DataLoader(Augmented(), batch_size=48, pin_memory=True)
    # mend: loader = DataLoader(Augmented(), batch_size=48, pin_memory=True, num_workers=8, prefetch_factor=4)
    for step, (images, labels) in enumerate(loader):  # finds: data-loading
        if step == steps:
            break
        images = images.to(device, non_blocking=True).to(torch.bfloat16, memory_format=torch.channels_last)
        loss = nn.functional.cross_entropy(model(images), labels.to(device, non_blocking=True))
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
