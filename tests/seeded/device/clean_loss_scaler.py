"""Half precision with a loss scaler, the optimizer fused."""
import torch
from torch import nn

device = "cuda"


def main(steps: int = 48) -> None:
    torch.manual_seed(0)
    layers = [m for _ in range(8) for m in (nn.Linear(4096, 4096), nn.GELU())]
    net = nn.Sequential(*layers).to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
    scaler = torch.amp.GradScaler(device)
    x = torch.randn(4096, 4096, device=device)
    for _ in range(steps):
        with torch.autocast(device, dtype=torch.float16):
            loss = net(x).float().square().mean()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()


if __name__ == "__main__":
    main()
