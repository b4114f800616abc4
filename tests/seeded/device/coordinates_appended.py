"""Features of points with their three coordinates appended, then a wide network over all points."""
import torch
from torch import nn
from torch.nn import functional as F

device = "cuda"


class PointNetwork(nn.Module):
    def __init__(self, inputs: int = 512, width: int = 1024, wide: int = 4096, classes: int = 64) -> None:
        super().__init__()
        self.encode = nn.Linear(inputs, width)
        self.lift = nn.Linear(width + 3, wide)
        # mend: self.lift = nn.Linear(width + 8, wide)
        self.mix = nn.Linear(wide, wide)
        self.classify = nn.Linear(wide, classes)

    def forward(self, features: torch.Tensor, xyz: torch.Tensor) -> torch.Tensor:
        h = F.relu(self.encode(features))  # may: tensor-core-shape
        h = torch.cat([h, xyz], dim=-1)
        # mend: h = torch.cat([h, F.pad(xyz, (0, 5))], dim=-1)
        h = F.relu(self.lift(h))  # finds: tensor-core-shape
        h = F.relu(self.mix(h))
        return self.classify(h.amax(1))


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    model = PointNetwork().to(device, torch.bfloat16)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    features = torch.randn(32, 1024, 512, device=device, dtype=torch.bfloat16)
    xyz = torch.rand(32, 1024, 3, device=device).to(torch.bfloat16)
    labels = torch.randint(64, (32,), device=device)
    for _ in range(steps):
        loss = F.cross_entropy(model(features, xyz), labels)
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
