"""A recommender in the manner of DLRM: bags of embeddings, dense features, pairwise products."""
import torch
from torch import nn


class Recommender(nn.Module):
    def __init__(self, tables: int = 8, rows: int = 2000, width: int = 32) -> None:
        super().__init__()
        self.bags = nn.ModuleList([nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables)])
        self.bottom = nn.Sequential(nn.Linear(13, 128), nn.ReLU(), nn.Linear(128, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(pairs + width, 256), nn.ReLU(), nn.Linear(256, 1))
        self.register_buffer("upper", torch.triu_indices(tables + 1, tables + 1, 1))

    def forward(self, dense: torch.Tensor, index: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        bottom = self.bottom(dense)
        rows = torch.stack([bottom, *(bag(index[k], offsets) for k, bag in enumerate(self.bags))], dim=1)
        products = torch.bmm(rows, rows.transpose(1, 2))
        flat = products[:, self.upper[0], self.upper[1]]
        return self.top(torch.cat([bottom, flat], dim=1)).squeeze(1)


def main(steps: int = 40) -> None:
    torch.manual_seed(0)
    model = Recommender()
    opt = torch.optim.Adagrad(model.parameters(), lr=0.01, fused=True)
    dense, clicked = torch.randn(512, 13), torch.randint(2, (512,)).float()
    index, offsets = torch.randint(2000, (8, 512 * 4)), torch.arange(0, 512 * 4, 4)
    for _ in range(steps):
        loss = nn.functional.binary_cross_entropy_with_logits(model(dense, index, offsets), clicked)
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
