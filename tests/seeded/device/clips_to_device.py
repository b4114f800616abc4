"""Frames of video clips wait in ordinary memory; a helper moves each batch to the device."""
import torch
from torch import nn
from torch.nn import functional as F

device = "cuda"
Batch = dict[str, torch.Tensor]


class ClipStore:
    """Decoded batches, gone through again and again."""

    def __init__(self, batches: int = 4, frames: int = 256, side: int = 160) -> None:
        first = torch.randn(frames, 3, side, side)
        labels = torch.randint(64, (frames,))
        self.batches = [{"frames": first.roll(k, 0), "labels": labels.roll(k, 0)} for k in range(batches)]
        # mend: self.batches = [{"frames": first.roll(k, 0).pin_memory(), "labels": labels.roll(k, 0).pin_memory()} for k in range(batches)]

    def batch(self, step: int) -> Batch:
        return self.batches[step % len(self.batches)]


def to_device(batch: Batch) -> Batch:
    return {name: tensor.to(device) for name, tensor in batch.items()}  # finds: pageable-copy
    # mend: return {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()}


class FrameEncoder(nn.Module):
    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, width, 4, stride=4)
        self.mix = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(4))
        self.head = nn.Linear(width, 64)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        x = F.gelu(self.patch(frames))
        for conv in self.mix:
            x = x + F.gelu(conv(x))
        return self.head(x.mean((2, 3)))


def main(steps: int = 32) -> None:
    torch.manual_seed(0)
    store = ClipStore()
    model = FrameEncoder().to(device, torch.bfloat16, memory_format=torch.channels_last)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    for step in range(steps):
        batch = to_device(store.batch(step))
        frames = batch["frames"].to(torch.bfloat16, memory_format=torch.channels_last)
        loss = F.cross_entropy(model(frames), batch["labels"])
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
