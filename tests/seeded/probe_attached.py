"""What CUPTI costs a program after a recording, and whether it can be detached: on a machine with a CUDA device.

    python tests/seeded/probe_attached.py OUT_FOLDER [--budget SECONDS] [--lanes N] [--rehearse] [--only NAME…]

Needs torch and the standard library alone. Every run is a fresh process; ``--lanes`` run at once, each with a device of its
own. Two kinds of run, in this order of importance as far as the budget goes:

``states``    a loop of this file, timed by blocks from idle to idle: before any profiler (``fresh``), after a session as the
              agent makes it (``attached``), after the agent's detaching (``detached``), after one more session and after
              detaching again; last the program's own profiler. As ``control`` the same without any session.
``graphs``    a CUDA graph that was captured, or replayed, before, during or after the time in which CUPTI is attached; what is
              detached then is detached whether the agent would or not (as in ``states``; what the agent says stands beside it).
``agent``     a seeded program, once alone by its own clock and once under the agent: how long is the step that the agent
              calls unprofiled?

``OUT_FOLDER/probe.json`` has every run, with its exit status and, if it died, the last phase that it reached; the table is
printed, and stands in ``OUT_FOLDER/probe.txt``. ``--rehearse`` runs all of it on a CPU, where there is nothing to detach.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent.parent / "pyserver"))
import markers  # noqa: E402
import record_device  # noqa: E402

BLOCK_S = 0.05
FRESH_S, PHASE_S = 1.5, 0.45
SESSION_STEPS = 12
TIMEOUT_S = 80
GRACE_S = 20
"""What runs when the budget is spent has so long to end."""

Step = Callable[[], None]


# ---------------------------------------------------------------------- the loops
def eager(torch: Any, device: str) -> Step:
    """Many small kernels, forward, backward and an optimizer: the host sets the pace."""
    nn = torch.nn
    model = nn.Sequential(*[m for _ in range(10) for m in (nn.Linear(128, 128), nn.LayerNorm(128), nn.ReLU())]).to(
        device
    )
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x = torch.randn(32, 128, device=device)

    def step() -> None:
        model(x).square().mean().backward()
        opt.step()
        opt.zero_grad()

    return step


def compiled(torch: Any, device: str, mode: str | None = None) -> Step:
    nn = torch.nn
    model = nn.Sequential(*[m for _ in range(4) for m in (nn.Linear(128, 128), nn.LayerNorm(128), nn.GELU())]).to(
        device
    )
    run = torch.compile(model, mode=mode)
    opt = torch.optim.SGD(model.parameters(), lr=1e-4)
    x = torch.randn(32, 128, device=device)

    def step() -> None:
        if mode is not None:
            torch.compiler.cudagraph_mark_step_begin()
        run(x).square().mean().backward()
        opt.step()
        opt.zero_grad()

    return step


def cudagraphs(torch: Any, device: str) -> Step:
    """Inductor's own CUDA graphs."""
    return compiled(torch, device, "reduce-overhead")


def graph(torch: Any, device: str) -> Step:
    """The program's own CUDA graph, and some launches beside it."""
    nn = torch.nn
    model = nn.Sequential(*[m for _ in range(20) for m in (nn.Linear(64, 64), nn.ReLU())]).to(device)
    x = torch.randn(16, 64, device=device)
    if device == "cpu":
        return lambda: model(x).sum().backward()
    with torch.no_grad():
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                model(x)
        torch.cuda.current_stream().wait_stream(side)
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            model(x)

    def step() -> None:
        x.normal_()
        captured.replay()
        x.add_(1.0).mul_(0.5)

    return step


def loader(torch: Any, device: str) -> Step:
    """Two workers and the thread that pins, beside small kernels."""
    data = torch.utils.data
    batches = data.DataLoader(
        data.TensorDataset(torch.randn(40000, 128)), batch_size=32, num_workers=2, pin_memory=device != "cpu"
    )

    def forever() -> Iterator[Any]:
        while True:
            yield from batches

    source, inner = forever(), eager(torch, device)

    def step() -> None:
        next(source)[0].to(device, non_blocking=True)
        inner()

    return step


def nccl(torch: Any, device: str) -> Step:
    """A process group of one rank: its watchdog asks for events all the time, from a thread of its own."""
    torch.distributed.init_process_group(
        "gloo" if device == "cpu" else "nccl", init_method=f"file://{tempfile.mkdtemp()}/store", rank=0, world_size=1
    )
    inner, x = eager(torch, device), torch.ones(1000, device=device)

    def step() -> None:
        torch.distributed.all_reduce(x)
        inner()

    return step


def threads(torch: Any, device: str) -> Step:
    """Another thread launches without a pause, on a stream of its own."""
    inner = eager(torch, device)

    def launch() -> None:
        x = torch.ones(1000, device=device)
        with torch.cuda.stream(torch.cuda.Stream()) if device != "cpu" else torch.no_grad():
            while True:
                x.add_(1.0)
                time.sleep(0.0001)

    threading.Thread(target=launch, daemon=True).start()
    return inner


def device_bound(torch: Any, device: str) -> Step:
    """Products that fill the device: the host waits."""
    size = 256 if device == "cpu" else 8192
    a = torch.randn(size, size, device=device, dtype=torch.bfloat16)

    def step() -> None:
        for _ in range(4):
            a @ a

    return step


LOOPS: dict[str, Callable[[Any, str], Step]] = {
    f.__name__: f for f in (eager, compiled, cudagraphs, loader, graph, nccl, threads, device_bound)
}
AGENT = (
    "zero_grad_keeps_tensors",
    "single_tensor_adam",
    "pinned_but_waited_for",
    "branch_on_tensor",
    "cudagraph_training",
)

CUDAGRAPH_TRAINING = '''"""A small model that is trained with Inductor's CUDA graphs."""
import torch
from torch import nn

device = "cuda"


def main(steps: int = 60) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*[m for _ in range(6) for m in (nn.Linear(256, 256), nn.LayerNorm(256), nn.GELU())]).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    run = torch.compile(model, mode="reduce-overhead")
    x = torch.randn(64, 256, device=device)
    for _ in range(steps):
        loss = run(x).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
'''


# ---------------------------------------------------------------------- a child: all states of one loop
class Phases:
    """Times a loop phase by phase and writes what it has after each."""

    def __init__(self, torch: Any, step: Step, out: Path, device: str) -> None:
        self._torch, self._step, self._out, self._device = torch, step, out, device
        self.found: dict[str, Any] = {}

    def wait(self) -> None:
        if self._device != "cpu":
            self._torch.cuda.synchronize()

    def keep(self, name: str, value: Any) -> None:
        self.found[name] = value
        self._out.write_text(json.dumps(self.found), encoding="utf-8")

    def timed(self, name: str, seconds: float) -> None:
        """Microseconds a step of every block, and what asking a stream costs the host."""
        blocks: list[float] = []
        self.wait()
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            began, count = time.perf_counter(), 0
            while time.perf_counter() - began < BLOCK_S:
                self._step()
                count += 1
            self.wait()
            blocks.append(1e6 * (time.perf_counter() - began) / count)
        self.keep(
            name,
            {"step_us": statistics.median(blocks[len(blocks) // 3 :]), "blocks_us": blocks, "query_us": self._query()},
        )

    def _query(self) -> float | None:
        if self._device == "cpu":
            return None
        stream, least = self._torch.cuda.current_stream(), float("inf")
        for _ in range(20):
            began = time.perf_counter()
            for _ in range(200):
                stream.query()
            least = min(least, time.perf_counter() - began)
        return 1e6 * least / 200

    def session(self, name: str) -> None:
        """A recording as the agent makes its window."""
        from ridgeline.agent.kineto import Recording

        recording = Recording(self._torch, _spec(self._device))
        recording.prepare()
        self._step()
        recording.start()
        for _ in range(SESSION_STEPS):
            self._step()
        recording.stop()
        self.keep(name, {"device_events": self._on_device(recording._results()), "lost": recording.lost_the_clock()})

    def _on_device(self, results: Any) -> int:
        host = self._torch._C._autograd.DeviceType.CPU
        return sum(1 for event in results.events() if event.device_type() != host)

    def detach(self, name: str) -> None:
        from ridgeline.agent import cupti, detaching
        from ridgeline.agent.calls import UnfinishedCalls
        from ridgeline.agent.kineto import Recording

        began = time.perf_counter()
        recording = Recording(self._torch, _spec(self._device))
        possible = bool(recording.devices) and cupti.fixed(self._torch) is None
        hindrance = detaching.hindrance(self._torch, UnfinishedCalls(self._torch.__path__[0])) if possible else None
        gone = cupti.detach(self._torch, recording) if possible else None
        self.keep(name, {"gone": gone, "hindrance": hindrance, "ms": 1e3 * (time.perf_counter() - began)})

    def own_profiler(self, name: str) -> None:
        with self._torch.profiler.profile() as profile:
            for _ in range(3):
                self._step()
            self.wait()
        self.keep(name, {"device_events": self._on_device(profile.profiler.kineto_results)})


def graphs_child(case: str, device: str, out: Path) -> None:
    """``case``: when the graph is captured, and whether it runs within the session."""
    import torch
    import torch.profiler

    captured: list[Any] = []
    inner = eager(torch, device)
    x = torch.ones(1000, device=device)

    def capture() -> None:
        if device == "cpu":
            return
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            x.mul(2.0)
        torch.cuda.current_stream().wait_stream(side)
        captured.append(torch.cuda.CUDAGraph())
        with torch.cuda.graph(captured[0]):
            for _ in range(20):
                x.mul_(1.0)

    def replay(times: int) -> None:
        for _ in range(times if captured else 0):
            captured[0].replay()
        phases.wait()

    def step() -> None:
        inner()
        if case == "replayed" and captured:
            captured[0].replay()

    phases = Phases(torch, step, out, device)
    phases.timed("fresh", 0.3)
    if case in ("replayed", "idle"):
        capture()
        replay(50)
    phases.session("session")
    if case == "attached":
        capture()
        replay(50)
    phases.detach("detach")
    if case == "later":
        capture()
    for turn in ("", "_again"):
        replay(300)
        phases.keep("replayed" + turn, True)
        phases.timed("detached" + turn, 0.3)
    case = "replayed"
    phases.session("session_again")
    replay(300)
    phases.keep("replayed_attached", True)
    phases.own_profiler("own_profiler")
    phases.keep("end", True)


GRAPHS = ("later", "attached", "idle", "replayed")


def _spec(device: str) -> Any:
    from ridgeline.agent.spec import Spec

    return Spec(run_dir="", target="", device="cpu" if device == "cpu" else "auto")


def child(loop: str, control: bool, device: str, out: Path) -> None:
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    import torch
    import torch.profiler
    import torch.utils.data

    step = LOOPS[loop](torch, device)
    for _ in range(5):
        step()
    phases = Phases(torch, step, out, device)
    phases.timed("fresh", FRESH_S)
    for turn in ("", "_again"):
        if not control:
            phases.session("session" + turn)
        phases.timed("attached" + turn, PHASE_S)
        if not control:
            phases.detach("detach" + turn)
        phases.timed("detached" + turn, PHASE_S)
    if not control:
        phases.own_profiler("own_profiler")
    phases.keep("end", True)
    sys.stdout.flush()
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


# ---------------------------------------------------------------------- seeded programs, alone and under the agent
def _program(name: str, device: str) -> markers.Seeded:
    if name == "cudagraph_training":
        text = CUDAGRAPH_TRAINING
        program = markers.Seeded(name=name, faulty=text, mended=None, expected=())
    else:
        program = markers.read(HERE / "device" / f"{name}.py")
    return record_device.rehearsed(program) if device == "cpu" else program


def alone(name: str, device: str, out: Path) -> None:
    """The program's step by its own clock, in this fresh process: the last 0.4 s of about 1.5 s."""
    import torch

    def wait() -> None:
        if device != "cpu":
            torch.cuda.synchronize()

    text = _program(name, device).faulty
    found: list[float] = []
    for steps in (20, 0, 0):
        steps = steps or max(10, min(3000, int(0.5e6 / found[-1])))
        clock = record_device.StepClock(record_device.WARM + steps, wait)
        scope: dict[str, Any] = {"__name__": "seeded", "range": clock.range, "enumerate": clock.enumerate}
        exec(compile(text, f"{name}.py", "exec"), scope)  # our own programs, from this folder
        scope["main"](clock.steps)
        found.append(clock.step_us)
    out.write_text(json.dumps({"step_us": found[-1], "runs_us": found}), encoding="utf-8")


def under_agent(name: str, device: str, work: Path, environment: dict[str, str], timeout: float) -> dict[str, Any]:
    program = _program(name, device)
    (work / "programs").mkdir(parents=True)
    log = record_device.record(
        program, work, work / "programs", "cpu" if device == "cpu" else "cuda", environment, timeout
    )
    sidecar = work / name / "sidecar.json"
    if not sidecar.is_file():
        return {"exit": log["exit_status"], "error": (work / name / "log.txt").read_text(errors="replace")[-500:]}
    document = json.loads(sidecar.read_text(encoding="utf-8"))
    plain = document["plain_steps_ns"]
    return {
        "exit": log["exit_status"],
        "step_us": statistics.median(plain) / 1e3 if plain else None,
        "plain_us": [round(ns / 1e3, 1) for ns in plain],
        "cupti_left": document.get("cupti_left"),
        "cupti_kept": document.get("cupti_kept"),
        "device_events": _device_events(work / name / "trace.json.gz"),
        "steps": sum(len(window["steps"]) for window in document["windows"]),
        "notes": document["notes"],
        "errors": document["errors"],
        "seconds": log["seconds"],
    }


def _device_events(path: Path) -> list[int]:
    """[all, with a time] in the exported trace."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        events = [e for e in json.load(file)["traceEvents"] if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    return [len(events), sum(e["ts"] > 0 and e["dur"] > 0 for e in events)]


# ---------------------------------------------------------------------- the parent
def jobs(only: list[str] | None) -> list[tuple[str, str, int]]:
    """(kind, name, turn), the most important first."""
    first = ["eager", "loader", "compiled", "threads", "nccl"]
    order: list[tuple[str, str, int]] = [("graphs", name, turn) for turn in (0, 1) for name in GRAPHS]
    order += [("states", name, turn) for turn in (0, 1) for name in ("threads", "nccl")]
    order += [("states", name, 0) for name in ("eager", "loader", "compiled", "cudagraphs", "graph", "device_bound")]
    order += [(kind, name, 0) for name in AGENT for kind in ("agent", "alone")]
    order += [("states", name, turn) for turn in (2, 3) for name in first]
    order += [("control", name, 0) for name in first]
    order += [("states", name, 4) for name in first]
    order += [("switch", name, 0) for name in ("eager", "compiled")]
    order += [(kind, name, 1) for name in AGENT for kind in ("agent", "alone")]
    return [job for job in order if not only or job[1] in only]


def run_one(
    kind: str, name: str, device: str, work: Path, environment: dict[str, str], timeout: float
) -> dict[str, Any]:
    if kind == "agent":
        return under_agent(name, device, work, environment, timeout)
    out = work / "out.json"
    command = [sys.executable, str(Path(__file__).resolve()), str(out), "--child", kind, name, device]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
        code, said = done.returncode, done.stderr[-600:]
    except subprocess.TimeoutExpired:
        code, said = 124, "timed out"
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8")) if out.is_file() else {}
    return {"exit": code, "stderr": said if code else "", **found}


def lane(
    number: int, waiting: queue.Queue[tuple[str, str, int]], rows: list[dict[str, Any]], options: Any, end: float
) -> None:
    device = "cpu" if options.rehearse else "cuda"
    with tempfile.TemporaryDirectory(prefix=f"probe_{number}_", ignore_cleanup_errors=True) as folder:
        environment = {
            **os.environ,
            "CUDA_VISIBLE_DEVICES": record_device.visible(number),
            "TORCHINDUCTOR_CACHE_DIR": os.environ.get("TORCHINDUCTOR_CACHE_DIR", f"{folder}/inductor"),
            "TMPDIR": folder,
        }
        environment.pop("TEARDOWN_CUPTI", None)
        if options.rehearse:
            environment["OMP_NUM_THREADS"] = "1"
        while time.monotonic() < end:
            try:
                kind, name, turn = waiting.get_nowait()
            except queue.Empty:
                return
            began, work = time.monotonic(), Path(tempfile.mkdtemp(dir=folder))
            extra = {"TEARDOWN_CUPTI": "1"} if kind == "switch" else {}
            timeout = 240.0 if options.rehearse else min(TIMEOUT_S, end + GRACE_S - began)
            found = run_one(kind, name, device, work, {**environment, **extra}, timeout)
            rows.append({"kind": kind, "name": name, "turn": turn, "lane": number, **found})
            print(f"lane {number} {kind} {name} exit {found['exit']} {time.monotonic() - began:.1f} s", flush=True)
            partial = options.out / "probe.json.part"
            partial.write_text(json.dumps(list(rows)), encoding="utf-8")
            partial.replace(options.out / "probe.json")


def table(rows: list[dict[str, Any]]) -> str:
    """Medians over runs; every state against ``fresh`` of its own process."""
    lines = [
        f"{'loop':14}{'kind':9}{'runs':>5}{'fresh µs':>10}{'attached':>10}{'detached':>10}{'again':>10}{'detached':>10}  exits, detached, device events"
    ]
    for kind, name in dict.fromkeys((r["kind"], r["name"]) for r in rows if r["kind"] not in ("agent", "alone")):
        mine = [r for r in rows if (r["kind"], r["name"]) == (kind, name)]
        whole = [r for r in mine if r.get("end")]

        def ratio(phase: str, whole: list[dict[str, Any]] = whole) -> str:
            values = [r[phase]["step_us"] / r["fresh"]["step_us"] for r in whole if phase in r]
            return f"{statistics.median(values):10.3f}" if values else f"{'-':>10}"

        fresh = statistics.median(r["fresh"]["step_us"] for r in whole) if whole else float("nan")
        ends = "; ".join(
            f"{r['exit']} {[r[d]['gone'] or r[d]['hindrance'] for d in ('detach', 'detach_again') if d in r]} "
            f"{[r[s]['device_events'] for s in ('session', 'session_again', 'own_profiler') if s in r]}"
            + ("" if r.get("end") else f" died after {list(r)[-1]}")
            for r in mine
        )
        cells = "".join(ratio(phase) for phase in ("attached", "detached", "attached_again", "detached_again"))
        lines.append(f"{name:14}{kind:9}{len(mine):5}{fresh:10.1f}{cells}  {ends}")
    lines.append("")
    for name in dict.fromkeys(r["name"] for r in rows if r["kind"] in ("agent", "alone")):
        own = [r["step_us"] for r in rows if (r["kind"], r["name"]) == ("alone", name) and r.get("step_us")]
        seen = [r for r in rows if (r["kind"], r["name"]) == ("agent", name)]
        said = ", ".join(
            f"{r.get('step_us')} (exit {r['exit']}, left {r.get('cupti_left')} {r.get('cupti_kept')}, events {r.get('device_events')}, {r.get('plain_us')})"
            for r in seen
        )
        lines.append(f"{name:26} alone {[round(us, 1) for us in own]} µs, under the agent {said}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--budget", type=float, default=95.0, help="seconds after which no run is begun")
    parser.add_argument("--lanes", type=int, default=1, help="devices to use at once")
    parser.add_argument("--only", nargs="*", help="loops and programs")
    parser.add_argument("--rehearse", action="store_true")
    parser.add_argument("--child", nargs=3, metavar=("KIND", "NAME", "DEVICE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        kind, name, device = options.child
        if kind == "alone":
            alone(name, device, options.out)
        elif kind == "graphs":
            graphs_child(name, device, options.out)
        else:
            child(name, kind == "control", device, options.out)
        return
    options.out.mkdir(parents=True, exist_ok=True)
    waiting: queue.Queue[tuple[str, str, int]] = queue.Queue()
    for job in jobs(options.only):
        waiting.put(job)
    rows: list[dict[str, Any]] = []
    end = time.monotonic() + options.budget
    lanes = [threading.Thread(target=lane, args=(n, waiting, rows, options, end)) for n in range(options.lanes)]
    for thread in lanes:
        thread.start()
    for thread in lanes:
        thread.join()
    text = table(rows)
    (options.out / "probe.txt").write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
