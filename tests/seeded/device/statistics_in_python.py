"""Between two steps the host sorts a list that nobody waits for."""
import random

import torch
from torch import nn

device = "cuda"


def main(steps: int = 48) -> None:
    torch.manual_seed(0)
    random.seed(0)
    net = nn.Sequential(nn.Linear(4096, 4096), nn.GELU(), nn.Linear(4096, 4096)).to(device, torch.bfloat16)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
    x = torch.randn(4096, 4096, device=device, dtype=torch.bfloat16)
    history = [random.random() for _ in range(60_000)]
    for _ in range(steps):
        loss = net(x).float().square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        median = sorted(history)[len(history) // 2]  # finds: host-work
        # mend: median = history[0]
        history[0] = median


if __name__ == "__main__":
    main()
