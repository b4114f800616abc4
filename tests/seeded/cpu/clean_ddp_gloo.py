"""Two ranks over gloo: this process is rank 0 and starts rank 1."""
import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def train(rank: int, port: int, steps: int) -> None:
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(port)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    model = DistributedDataParallel(net)  # may: bucket-copies
    opt = torch.optim.SGD(model.parameters(), lr=1e-2, fused=True)
    x, y = torch.randn(512, 512), torch.randint(10, (512,))
    for _ in range(steps):
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
    dist.destroy_process_group()


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def main(steps: int = 40) -> None:
    port = free_port()
    other = mp.get_context("spawn").Process(target=train, args=(1, port, steps), daemon=True)
    other.start()
    train(0, port, steps)
    other.join(20)


if __name__ == "__main__":
    main()
