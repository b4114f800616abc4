"""What the agent costs a step: profiled steps against plain ones of the same process, and against no agent at all.

    python tests/benchmarks/agent_overhead.py [--steps 60] [--repeats 3] [--no-lines]

Prints one row a case: median plain step (unprofiled, under the agent), median profiled step, their ratio, and the
minimum over repeats of process CPU time a step with and without the agent's hooks (after the window they cost one
comparison). Each case is a process of its own; repeats are interleaved, for a shared machine drifts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

LINES = "--no-lines" not in sys.argv
"""Whether the line timeline runs: its cost is the difference between two runs of this program."""
MAIN = Path(__file__).resolve().parents[2] / "pyserver" / "ridgeline" / "agent" / "main.py"

PROGRAM = """
import sys, time, torch
import torch.nn.functional as F

width, batch, compiled, steps = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "compiled", int(sys.argv[4])

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up = torch.nn.LayerNorm(width), torch.nn.Linear(width, 4 * width)
        self.down, self.qkv = torch.nn.Linear(4 * width, width), torch.nn.Linear(width, 3 * width)
    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        x = x + torch.softmax(q @ k.transpose(-2, -1) * width**-0.5, dim=-1) @ v
        return x + self.down(F.gelu(self.up(x)))

torch.manual_seed(0)
model = torch.nn.Sequential(Block(), Block(), Block())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
forward = torch.compile(model) if compiled else model
times = []
for _ in range(steps):
    begin = time.process_time()
    forward(torch.randn(batch, 64, width)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    times.append(time.process_time() - begin)
print(min(times[steps // 2:]) * 1e3)
"""

CASES = [
    ("eager, small", 64, 2, "eager"),
    ("eager", 256, 8, "eager"),
    ("compiled, small", 64, 2, "compiled"),
    ("compiled", 256, 8, "compiled"),
]


def run(command: list[str]) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "INDUCTOR_PROVENANCE": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--no-lines", action="store_true", help="without the line timeline")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(
        f"{'case':18}{'plain ms':>10}{'profiled ms':>13}{'ratio':>8}{'best ratio':>12}{'cpu ms bare':>13}{'cpu ms hooked':>15}"
    )
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program.py"
        program.write_text(PROGRAM)
        for name, width, batch, kind in CASES:
            arguments = [str(width), str(batch), kind, str(options.steps)]
            plain: list[int] = []
            profiled: list[int] = []
            bare: list[float] = []
            hooked: list[float] = []
            for repeat in range(options.repeats):
                bare.append(float(run([sys.executable, str(program), *arguments])))
                target = Path(folder) / f"{kind}{width}-{repeat}"
                target.mkdir()
                spec = {"run_dir": str(target), "target": str(program), "args": arguments, "lines": LINES}
                (target / "spec.json").write_text(json.dumps(spec))
                hooked.append(float(run([sys.executable, str(MAIN), str(target / "spec.json")])))
                sidecar = json.loads((target / "sidecar.json").read_text())
                plain += sidecar["plain_steps_ns"]
                profiled += sidecar["profiled_steps_ns"]
            a, b = median(plain) / 1e6, median(profiled) / 1e6
            best = min(profiled) / min(plain)
            print(
                f"{name:18}{a:10.2f}{b:13.2f}{b / a:8.2f}{best:12.2f}{min(bare):13.2f}{min(hooked):15.2f}", flush=True
            )


if __name__ == "__main__":
    main()
