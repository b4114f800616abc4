"""Texts are tokenised again every time they are read, character by character."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ALPHABET = "abcdefghijklmnopqrstuvwxyz "


class Texts(Dataset):
    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> torch.Tensor:
        text = "the quick brown fox jumps over the lazy dog " * 12
        ids = []
        for _ in range(4):
            ids = [ALPHABET.index(character) for character in text]
        return torch.tensor(ids[:64])


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(27, 32)
        self.head = nn.Linear(32, 27)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.embed(ids).mean(1))


def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    model = Model()
    opt = torch.optim.SGD(model.parameters(), lr=1e-2)
    for step, ids in enumerate(DataLoader(Texts(), batch_size=32)):  # finds: data-loading
        if step == steps:
            break
        loss = nn.functional.cross_entropy(model(ids), ids[:, 0])
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
