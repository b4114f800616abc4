"""Texts sorted into batches of like length, padded to the longest of each by the collate function."""
# options: --lengths
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, Sampler


class Texts(Dataset):
    def __init__(self, count: int = 1024) -> None:
        generator = torch.Generator().manual_seed(0)
        self.rows = [torch.randint(1, 800, (24 + 7 * k % 40,), generator=generator) for k in range(count)]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.rows[index], index % 4


class ByLength(Sampler[list[int]]):
    def __init__(self, data: Texts, batch: int) -> None:
        order = sorted(range(len(data)), key=lambda i: len(data.rows[i]))
        self.batches = [order[i : i + batch] for i in range(0, len(order), batch)]

    def __iter__(self):
        order = torch.randperm(len(self.batches), generator=torch.Generator().manual_seed(1))
        return iter([self.batches[i] for i in order.tolist()])

    def __len__(self) -> int:
        return len(self.batches)


def collate(batch: list[tuple[torch.Tensor, int]]) -> dict[str, torch.Tensor]:
    ids = pad_sequence([row for row, _ in batch], batch_first=True)
    return {"input_ids": ids, "attention_mask": ids.ne(0), "labels": torch.tensor([label for _, label in batch])}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(800, 256, padding_idx=0)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True), 2, enable_nested_tensor=False)
        self.head = nn.Linear(256, 4)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        h = self.encoder(self.embed(input_ids), src_key_padding_mask=~attention_mask)
        weight = attention_mask.unsqueeze(-1)
        return self.head((h * weight).sum(1) / weight.sum(1))


def main(steps: int = 30) -> None:
    torch.manual_seed(0)
    data, model = Texts(), Model()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    loader = DataLoader(data, batch_sampler=ByLength(data, 16), collate_fn=collate)
    for step, batch in enumerate(loader):
        if step == steps:
            break
        loss = nn.functional.cross_entropy(model(batch["input_ids"], batch["attention_mask"]), batch["labels"])
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
