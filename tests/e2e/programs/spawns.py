import torch.multiprocessing as mp
from small import train


def work(rank, queue):
    queue.put(round(train(5).item(), 6))


if __name__ == "__main__":
    queue = mp.get_context("spawn").Queue()
    mp.spawn(work, args=(queue,), nprocs=2)
    print("children", queue.get(), queue.get())
    train()
