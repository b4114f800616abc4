"""Training with the loss read every step for a running mean."""
import torch
from torch import nn

device = "cuda"


def main(steps: int = 60) -> float:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4096, 8192), nn.GELU(), nn.Linear(8192, 4096)).to(device, torch.bfloat16)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(8192, 4096, device=device, dtype=torch.bfloat16)
    y = torch.randn(8192, 4096, device=device, dtype=torch.bfloat16)
    running = torch.zeros((), device=device)
    for _ in range(steps):
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        running += loss.item()  # finds: hidden-sync
        # mend: running += loss.detach()
        opt.step()
        opt.zero_grad()
    return float(running)


if __name__ == "__main__":
    main()
