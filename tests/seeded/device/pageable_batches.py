"""Batches of images, made before, copied from ordinary memory and blocking."""
import torch
from torch import nn

device = "cuda"


def main(steps: int = 48) -> None:
    torch.manual_seed(0)
    batches = [torch.randn(256, 8, 128, 128) for _ in range(4)]
    # mend: batches = [torch.randn(256, 8, 128, 128).pin_memory() for _ in range(4)]
    model = nn.Sequential(nn.Conv2d(8, 256, 3, padding=1), nn.ReLU(), nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.Conv2d(256, 8, 3))
    model = model.to(device, torch.bfloat16, memory_format=torch.channels_last)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(steps):
        x = batches[step % len(batches)].to(device)  # finds: pageable-copy
        # mend: x = batches[step % len(batches)].to(device, non_blocking=True)
        x = x.to(torch.bfloat16, memory_format=torch.channels_last)
        loss = model(x).float().square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
