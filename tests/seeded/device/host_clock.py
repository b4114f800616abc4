"""Step times printed from a host clock that waits for nothing."""
import time

import torch
from torch import nn

device = "cuda"


def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 4096)).to(device, torch.bfloat16)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(8192, 4096, device=device, dtype=torch.bfloat16)
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        loss = model(x).float().square().mean()
        loss.backward()
        times.append(time.perf_counter() - start)  # finds: unsynchronised-clock
        opt.step()
        opt.zero_grad()
    print(f"{1e3 * sum(times) / len(times):.2f} ms a step")


if __name__ == "__main__":
    main()
