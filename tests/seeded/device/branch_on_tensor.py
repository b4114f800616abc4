"""Gradient clipping that asks the device whether the norm is finite."""
import torch
from torch import nn

device = "cuda"


def clip(model: nn.Module) -> None:
    norm = nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
    if norm > 1.0:  # finds: hidden-sync
    # mend: if True:
        nn.utils.clip_grads_with_norm_(model.parameters(), 1.0, norm)


def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(8)]).to(device, torch.bfloat16)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x = torch.randn(32768, 2048, device=device, dtype=torch.bfloat16)
    for _ in range(steps):
        loss = model(x).float().square().mean()
        loss.backward()
        clip(model)
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
