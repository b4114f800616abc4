"""A training loop with all that makes a process tree hard to end: loader workers, Inductor's compile workers, ``torchrun``
with two workers in sessions of their own, and a grandchild that ignores every polite signal."""

import subprocess
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

DEAF = "import signal, time; [signal.signal(s, signal.SIG_IGN) for s in (1, 2, 15)]; time.sleep(600)"
PARENT = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {DEAF!r}]); time.sleep(600)"


class Numbers(Dataset):
    def __len__(self):
        return 10**6

    def __getitem__(self, i):
        return torch.full((64,), i / 1e6)


if __name__ == "__main__":
    subprocess.Popen([sys.executable, "-c", PARENT])
    elastic = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0"]
    subprocess.Popen([*elastic, "--no-python", "sleep", "600"], stderr=subprocess.DEVNULL)
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    compiled = torch.compile(model)
    loader = DataLoader(Numbers(), batch_size=32, num_workers=2)
    print("looping", flush=True)
    for step, x in enumerate(loader):
        loss = compiled(x).square().mean() if step > 20 else model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.01)
