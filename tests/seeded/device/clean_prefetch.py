"""The next batch is copied on a stream of its own while this one is computed."""
import torch
from torch import nn

device = "cuda"


def main(steps: int = 48) -> None:
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    batches = [torch.randn(8192, 1024).pin_memory() for _ in range(4)]
    layers = [m for _ in range(12) for m in (nn.Linear(1024, 1024), nn.GELU())]
    net = nn.Sequential(*layers).to(device)
    opt = torch.optim.SGD(net.parameters(), lr=1e-4, fused=True)
    copies = torch.cuda.Stream()
    following = batches[0].to(device, non_blocking=True)
    for step in range(steps):
        torch.cuda.current_stream().wait_stream(copies)
        x = following
        x.record_stream(torch.cuda.current_stream())
        with torch.cuda.stream(copies):
            following = batches[(step + 1) % 4].to(device, non_blocking=True)
        loss = net(x).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
