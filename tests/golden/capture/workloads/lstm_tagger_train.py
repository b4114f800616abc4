"""A tagger of short sentences, eager, float32 with TF32 products: word embeddings, a convolution over the letters of each
word, a bidirectional LSTM by cuDNN, a loss that skips padding, clipped gradients, foreach Adam."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

BATCH, WORDS, LETTERS = 1024, 8, 16
VOCABULARY, ALPHABET, TAGS = 50000, 128, 48
WIDTH, LETTER_WIDTH, KERNELS, HIDDEN = 300, 32, 84, 512


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH, padding_idx=0)
        self.letters = nn.Embedding(ALPHABET, LETTER_WIDTH, padding_idx=0)
        self.spelling = nn.Conv1d(LETTER_WIDTH, KERNELS, 3, padding=1)
        self.lstm = nn.LSTM(WIDTH + KERNELS, HIDDEN, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * HIDDEN, TAGS)

    def forward(self, words: torch.Tensor, letters: torch.Tensor) -> torch.Tensor:
        spelt = self.spelling(self.letters(letters.flatten(0, 1)).transpose(1, 2)).amax(-1)
        x = torch.cat((self.words(words), spelt.view(*words.shape, KERNELS)), -1)
        y, _ = self.lstm(F.dropout(x, 0.5, self.training))
        return self.head(F.dropout(y, 0.5, self.training))


def build() -> Callable[[], None]:
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    model = Tagger().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    words = torch.randint(1, VOCABULARY, (BATCH, WORDS), device="cuda")
    letters = torch.randint(1, ALPHABET, (BATCH, WORDS, LETTERS), device="cuda")
    length = torch.randint(3, WORDS + 1, (BATCH, 1), device="cuda")
    padding = torch.arange(WORDS, device="cuda") >= length
    words[padding] = 0
    letters[padding] = 0
    tags = torch.randint(0, TAGS, (BATCH, WORDS), device="cuda").masked_fill(padding, -100)

    def step() -> None:
        logits = model(words, letters)
        loss = F.cross_entropy(logits.flatten(0, 1), tags.flatten(), ignore_index=-100)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step
