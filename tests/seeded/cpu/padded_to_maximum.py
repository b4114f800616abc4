"""Short texts, padded to the model's maximum."""
# options: --lengths
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Texts(Dataset):
    """Token ids that were made before, of 16 to 75 tokens."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.rows = [torch.randint(1, 500, (16 + k * 37 % 60,), generator=generator) for k in range(480)]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.rows[index]


def collate(rows: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    ids = torch.zeros(len(rows), 256, dtype=torch.long)
    for row, text in enumerate(rows):
        ids[row, : len(text)] = text
    return {"input_ids": ids, "attention_mask": ids != 0}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(500, 256, padding_idx=0)
        self.up, self.down = nn.Linear(256, 1024), nn.Linear(1024, 256)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        h = self.embed(input_ids)
        h = h + self.down(torch.relu(self.up(h)))
        return (h * attention_mask.unsqueeze(-1)).sum(1)


def main(steps: int = 50) -> None:
    torch.manual_seed(0)
    model = Model()
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader = DataLoader(Texts(), batch_size=8, collate_fn=collate)
    for step, batch in enumerate(loader):  # finds: padding
        if step == steps:
            break
        loss = model(**batch).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
