"""The loss is kept on the device and read every twenty steps."""
import torch
from torch import nn

device = "cuda"


def main(steps: int = 80) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2048, 8192), nn.GELU(), nn.Linear(8192, 2048)).to(device, torch.bfloat16)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    x = torch.randn(8192, 2048, device=device, dtype=torch.bfloat16)
    running = torch.zeros((), device=device)
    for step in range(steps):
        loss = model(x).float().square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        running += loss.detach()
        if step % 20 == 19:
            print(step, running.item() / 20)
            running.zero_()


if __name__ == "__main__":
    main()
