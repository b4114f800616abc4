"""Batches lie in pinned memory, but every copy is waited for."""
import torch
from torch import nn

device = "cuda"


def main(steps: int = 48) -> None:
    torch.manual_seed(0)
    batches = [torch.randn(4096, 1024).pin_memory() for _ in range(4)]
    layers = [m for _ in range(12) for m in (nn.Linear(1024, 1024), nn.GELU())]
    net = nn.Sequential(*layers).to(device)
    opt = torch.optim.SGD(net.parameters(), lr=1e-4, fused=True)
    torch.set_float32_matmul_precision("high")
    for step in range(steps):
        x = batches[step % 4].to(device)  # finds: blocking-copy
        # mend: x = batches[step % 4].to(device, non_blocking=True)
        loss = net(x).square().mean()  # may: launch-bound
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
