"""Short texts, padded to the model's maximum."""
# options: --lengths
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Texts(Dataset):
    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(index)
        return torch.randint(1, 500, (16 + index * 37 % 60,), generator=generator)


def collate(rows: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    ids = torch.zeros(len(rows), 256, dtype=torch.long)
    for row, text in enumerate(rows):
        ids[row, : len(text)] = text
    return {"input_ids": ids, "attention_mask": ids != 0}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(500, 128, padding_idx=0)
        self.up, self.down = nn.Linear(128, 512), nn.Linear(512, 128)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        h = self.embed(input_ids)
        h = h + self.down(torch.relu(self.up(h)))
        return (h * attention_mask.unsqueeze(-1)).sum(1)


def main(steps: int = 50) -> None:
    torch.manual_seed(0)
    model = Model()
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader = DataLoader(Texts(), batch_size=8, collate_fn=collate, num_workers=1, persistent_workers=True)
    for step, batch in enumerate(loader):  # finds: padding
        if step == steps:
            break
        loss = model(**batch).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
