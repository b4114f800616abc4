"""A server's loop: requests come through a queue, those that wait go through the model together, answers go back."""
import queue
import threading

import torch
from torch import nn


def clients(requests, number):
    for i in range(number):
        answer = queue.Queue(1)
        requests.put((torch.randn(256), answer))
        if i % 8 == 7:
            answer.get()
    requests.put(None)


def batches(requests, most=8):
    while True:
        first = requests.get()
        if first is None:
            return
        waiting = [first]
        while len(waiting) < most:
            another = requests.get()
            if another is None:
                requests.put(None)
                break
            waiting.append(another)
        yield waiting


def main(steps=60):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 20)).eval()
    requests = queue.Queue()
    sender = threading.Thread(target=clients, args=(requests, steps * 8), daemon=True)
    sender.start()
    with torch.inference_mode():
        for waiting in batches(requests):
            rows = torch.stack([x for x, _ in waiting])
            scores = model(rows).softmax(-1)
            best = scores.topk(3, dim=-1)
            for i, (_, answer) in enumerate(waiting):
                answer.put((best.indices[i], best.values[i]))
    sender.join()


if __name__ == "__main__":
    main()
