"""An eager training step of a speech transducer's predictor and joiner over encoder frames, float32 with TF32 products:
a predictor of the last two labels, a joiner of each frame with the labels near its alignment, cross-entropy along the
alignment, a connectionist loss on the frames beside it, AdamW."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

BATCH, FRAMES, LABELS, NEAR, INPUT, WIDTH, WORDS = 24, 400, 80, 5, 512, 512, 1024


class Transducer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.context = nn.Conv1d(WIDTH, WIDTH, 2, groups=WIDTH // 4, bias=False)
        self.frame, self.label = nn.Linear(INPUT, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.out, self.ctc = nn.Linear(WIDTH, WORDS), nn.Linear(INPUT, WORDS)

    def forward(
        self, sound: torch.Tensor, text: torch.Tensor, place: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        history = self.words(F.pad(text, (2, 0))).transpose(1, 2)
        predicted = self.label(F.relu(self.context(history)).transpose(1, 2))
        frame = self.frame(sound)
        near = predicted.gather(1, place.flatten(1)[..., None].expand(-1, -1, WIDTH)).view(*place.shape, WIDTH)
        return self.out(torch.tanh(frame[:, :, None] + near)), self.ctc(F.dropout(sound, 0.1))


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    model = Transducer().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    sound = torch.randn(BATCH, FRAMES, INPUT, device="cuda")
    text = torch.randint(1, WORDS, (BATCH, LABELS), device="cuda")
    speed = LABELS / FRAMES * (0.8 + 0.2 * torch.rand(BATCH, 1, device="cuda"))
    reached = (torch.arange(FRAMES, device="cuda") * speed).long()
    first = (reached - NEAR // 2).clamp(0, LABELS + 1 - NEAR)
    place = first[..., None] + torch.arange(NEAR, device="cuda")
    emits = F.pad(reached.diff(dim=1), (0, 1)) > 0
    frames, labels = (torch.full((BATCH,), n, dtype=torch.long) for n in (FRAMES, LABELS))

    def step() -> None:
        joint, side = model(sound, text, place)
        score = joint.log_softmax(-1)
        following = F.pad(text, (0, 1)).gather(1, place.flatten(1)).view_as(place)
        emitted = score.gather(3, following[..., None]).squeeze(3)
        blank = score[..., 0]
        on_path = place == reached[..., None]
        path = torch.where(emits[..., None], emitted, blank).masked_fill(~on_path, 0.0)
        ctc = F.ctc_loss(side.log_softmax(-1).transpose(0, 1), text, frames, labels, zero_infinity=True)
        loss = -path.sum((1, 2)).mean() / FRAMES + 0.2 * ctc
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step
