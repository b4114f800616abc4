"""Someone left the synchronisation of a timing experiment in the loop."""
import torch
from torch import nn

device = "cuda"


def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 4096)).to(device, torch.bfloat16)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x = torch.randn(8192, 4096, device=device, dtype=torch.bfloat16)
    for _ in range(steps):
        loss = model(x).float().square().mean()
        loss.backward()
        torch.cuda.synchronize()  # finds: hidden-sync
        # mend: pass
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
