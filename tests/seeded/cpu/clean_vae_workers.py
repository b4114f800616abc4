"""A variational autoencoder fed by two worker processes that keep up."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Digits(Dataset):
    def __init__(self) -> None:
        self.images = torch.rand(4096, 784, generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return 4096

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.images[index]


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(784, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 64))
        self.decode = nn.Sequential(nn.Linear(32, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 784))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean, logvar = self.encode(x).chunk(2, dim=1)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * logvar)
        reconstruction = nn.functional.binary_cross_entropy_with_logits(self.decode(z), x, reduction="sum")
        return reconstruction - 0.5 * (1 + logvar - mean.square() - logvar.exp()).sum()


def main(steps: int = 24) -> None:
    torch.manual_seed(0)
    model = VAE()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    loader = DataLoader(Digits(), batch_size=128, shuffle=True, num_workers=2, persistent_workers=True)
    for step, x in enumerate(loader):
        if step == steps:
            break
        loss = model(x) / len(x)
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
