"""A tokenizer that pads every batch to the model's maximum, as padding="max_length" does."""
# options: --lengths
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

MAXIMUM = 192


class Tickets(Dataset):
    def __init__(self, count: int = 800) -> None:
        generator = torch.Generator().manual_seed(3)
        self.texts = [torch.randint(1, 1000, (12 + (k * 29) % 70,), generator=generator) for k in range(count)]

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        text = self.texts[index]
        ids, mask = torch.zeros(MAXIMUM, dtype=torch.long), torch.zeros(MAXIMUM, dtype=torch.long)
        ids[: len(text)], mask[: len(text)] = text, 1
        return {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor(index % 3)}


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(1000, 128)
        self.blocks = nn.TransformerEncoder(nn.TransformerEncoderLayer(128, 4, 512, batch_first=True), 2, enable_nested_tensor=False)
        self.head = nn.Linear(128, 3)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        h = self.blocks(self.embed(input_ids), src_key_padding_mask=attention_mask == 0)
        return nn.functional.cross_entropy(self.head(h[:, 0]), labels)


def main(steps: int = 24) -> None:
    torch.manual_seed(0)
    model = Encoder()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    for step, batch in enumerate(DataLoader(Tickets(), batch_size=8, shuffle=True)):  # finds: padding
        if step == steps:
            break
        loss = model(**batch)
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
