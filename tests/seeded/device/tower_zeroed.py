"""A tower of large matrices whose trainer fills the gradients with zeros before each pass."""
import torch
from torch import nn
from torch.nn import functional as F

device = "cuda"


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + F.silu(self.linear(self.norm(x)))


class Trainer:
    def __init__(self, model: nn.Module, lr: float = 1e-3) -> None:
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, fused=True)
        self.losses = torch.zeros((), device=device)

    def training_step(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self.model.zero_grad(set_to_none=False)  # finds: zero-grad
        # mend: self.model.zero_grad(set_to_none=True)
        loss = F.mse_loss(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        self.losses += loss.detach()


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    with torch.device(device):
        tower = nn.Sequential(*[Residual(6144) for _ in range(10)]).to(torch.bfloat16)
        x, y = torch.randn(2, 1024, 6144, dtype=torch.bfloat16)
    trainer = Trainer(tower)
    for _ in range(steps):
        trainer.training_step(x, y)
    print(f"mean loss {float(trainer.losses) / steps:.4f}")


if __name__ == "__main__":
    main()
