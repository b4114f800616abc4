"""A caption grows word by word; the whole prefix goes through the decoder each time."""
import torch
from torch import nn


class Captioner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(600, 96), nn.Embedding(256, 96)
        layer = nn.TransformerEncoderLayer(96, 4, 384, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(96, 600)

    def forward(self, image: torch.Tensor, prefix: torch.Tensor) -> torch.Tensor:
        h = self.words(prefix) + image[:, None]  # may: token-decode
        mask = nn.Transformer.generate_square_subsequent_mask(prefix.size(1))
        return self.out(self.layers(h, mask=mask, is_causal=True)[:, -1])


def main(steps: int = 80) -> None:
    torch.manual_seed(0)
    model = Captioner().eval()
    image, prefix = torch.randn(8, 96), torch.zeros(8, 1, dtype=torch.long)
    with torch.no_grad():
        for _ in range(steps):
            word = model(image, prefix).argmax(-1, keepdim=True)  # finds: token-decode
            prefix = torch.cat([prefix, word], dim=1)


if __name__ == "__main__":
    main()
