"""An eager training step of knowledge-graph embeddings in float32: entities as complex vectors turned by a relation's
phases, true triples against sampled tails, self-adversarial weights, Adagrad over the tables."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

ENTITIES, RELATIONS, HALF, BATCH, NEGATIVE, MARGIN = 60_000, 800, 256, 512, 128, 9.0


def build():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    reach = (MARGIN + 2.0) / HALF
    entity, relation = nn.Embedding(ENTITIES, 2 * HALF).cuda(), nn.Embedding(RELATIONS, HALF).cuda()
    for table in (entity, relation):
        nn.init.uniform_(table.weight, -reach, reach)
    optimizer = torch.optim.Adagrad([entity.weight, relation.weight], lr=0.1)
    popular = torch.rand(BATCH, 2, device="cuda").pow(3) * ENTITIES
    head, tail = popular.long().unbind(1)
    link = torch.randint(0, RELATIONS, (BATCH,), device="cuda")
    wrong = torch.randint(0, ENTITIES, (BATCH, NEGATIVE), device="cuda")
    others = torch.cat((tail[:, None], wrong), 1)

    def step() -> None:
        h, other = entity(head), entity(others)
        phase = relation(link) * (torch.pi / reach)
        real, imaginary = h[:, None].chunk(2, -1)
        cos, sin = phase.cos()[:, None], phase.sin()[:, None]
        to_real, to_imaginary = other.chunk(2, -1)
        away = torch.stack((real * cos - imaginary * sin - to_real, real * sin + imaginary * cos - to_imaginary))
        true, false = (MARGIN - away.norm(dim=0).sum(-1)).split((1, NEGATIVE), 1)
        weight = false.detach().softmax(1)
        loss = -F.logsigmoid(true).mean() - (weight * F.logsigmoid(-false)).sum(1).mean()
        optimizer.zero_grad(set_to_none=True)
        (loss / 2).backward()
        optimizer.step()

    return step
