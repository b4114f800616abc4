"""The allocator's cache is emptied after every step, out of fear."""
import torch
from torch import nn

device = "cuda"


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2048, 8192), nn.GELU(), nn.Linear(8192, 2048)).to(device, torch.bfloat16)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(8192, 2048, device=device, dtype=torch.bfloat16)
    for _ in range(steps):
        loss = model(x).float().square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        torch.cuda.empty_cache()  # finds: allocation-in-loop
        # mend: pass


if __name__ == "__main__":
    main()
