"""Workers, pinned memory and a prefetcher with a stream of its own, which also makes numbers of the bytes."""
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

device = "cuda"


class Bytes(Dataset):
    def __init__(self, kept: int = 1024, side: int = 128) -> None:
        self.images = torch.randint(0, 256, (kept, 3, side, side), dtype=torch.uint8)

    def __len__(self) -> int:
        return 524_288

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.images[index % len(self.images)], index % 10


class Prefetcher:
    def __init__(self, loader: DataLoader) -> None:
        self.loader, self.stream = loader, torch.cuda.Stream()
        self.mean = torch.tensor([124.0, 117.0, 104.0], device=device).view(1, 3, 1, 1)
        self.std = torch.tensor([58.0, 57.0, 57.0], device=device).view(1, 3, 1, 1)

    def _sent(self, batch: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.cuda.stream(self.stream):
            images, labels = (tensor.to(device, non_blocking=True) for tensor in batch)
            images = ((images.float() - self.mean) / self.std).to(torch.bfloat16, memory_format=torch.channels_last)
        return images, labels

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        batches = iter(self.loader)
        following = self._sent(next(batches))
        for batch in batches:
            torch.cuda.current_stream().wait_stream(self.stream)
            current = following
            for tensor in current:
                tensor.record_stream(torch.cuda.current_stream())
            following = self._sent(batch)
            yield current


def network(width: int = 256) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv2d(3, width, 4, stride=2, padding=1), nn.GELU()]
    for _ in range(5):
        layers += [nn.Conv2d(width, width, 3, padding=1), nn.GELU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    loader = DataLoader(Bytes(), batch_size=128, num_workers=6, pin_memory=True, drop_last=True, prefetch_factor=4)
    model = network().to(device, torch.bfloat16, memory_format=torch.channels_last)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True)
    for step, (images, labels) in enumerate(Prefetcher(loader)):
        if step == steps:
            break
        loss = nn.functional.cross_entropy(model(images), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
