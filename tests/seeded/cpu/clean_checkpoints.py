"""Saves a checkpoint and evaluates every so many steps."""
import io
import logging
import time

import torch
from torch import nn

log = logging.getLogger("train")


def save(model: nn.Module, opt: torch.optim.Optimizer, step: int) -> int:
    buffer = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": opt.state_dict(), "step": step}, buffer)
    return buffer.tell()


@torch.no_grad()
def evaluate(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    model.eval()
    accuracy = (model(x).argmax(1) == y).float().mean().item()
    model.train()
    return accuracy


def main(steps: int = 80) -> None:
    logging.basicConfig(level=logging.INFO)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Dropout(0.1), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 10))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(opt, 1e-3, total_steps=steps + 1)
    x, y = torch.randn(2048, 128), torch.randint(10, (2048,))
    started = time.perf_counter()
    for step in range(steps):
        rows = slice(step * 256 % 1792, step * 256 % 1792 + 256)
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        opt.step()
        opt.zero_grad()
        schedule.step()
        if (step + 1) % 40 == 0:
            size = save(model, opt, step)
            took = time.perf_counter() - started
            log.info("step %d loss %.3f accuracy %.3f, %d bytes, %.1f s", step, loss.item(), evaluate(model, x, y), size, took)


if __name__ == "__main__":
    main()
