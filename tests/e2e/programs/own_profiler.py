import os
import sys

from small import make, step
from torch.profiler import ProfilerActivity, profile, record_function, schedule

model, optimizer = make()
written = []


def ready(p):
    path = os.path.join(sys.argv[1], f"own_{p.step_num}.json")
    p.export_chrome_trace(path)
    written.append(os.path.getsize(path) > 1000)


with profile(
    activities=[ProfilerActivity.CPU], schedule=schedule(wait=2, warmup=2, active=3, repeat=2), on_trace_ready=ready
) as p:
    for _ in range(20):
        with record_function("a step of mine"):
            step(model, optimizer)
        p.step()
print(written, any(row.key == "a step of mine" for row in p.key_averages()))
