"""Records the seeded device programs on a machine with CUDA devices, for ``frozen/``.

    python tests/seeded/record_device.py OUT_FOLDER [--budget SECONDS] [--lanes N] [--record [NAME…]] [--pairs [NAME…]]
        [--missing] [--rehearse]

Needs torch and the standard library alone. Every program runs under the agent as ``ridgeline profile`` would start it; its
run folder goes into ``OUT_FOLDER/runs_LANE.tar.xz``. Then, in another fresh process, the faulty and the mended program are
timed against each other, unprofiled, in alternating pairs: ``OUT_FOLDER/pairs.json``. A side of a pair is at least 0.5 s
of steps. ``--record`` and ``--pairs`` do one of the two, for these programs (all, if none is named), in this order;
``--missing`` records only the programs that ``frozen/runs.tar.xz`` has no recording of. ``--lanes`` run at once, each with
a device, an Inductor cache and a temporary folder of its own. Afterwards ``pack.py`` makes the archive of the repository.

``--rehearse`` runs the same programs on a CPU, with "cuda" in their text replaced: it shows that everything is in place.
Programs that need a device fail in a rehearsal, and the log says so.
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import json
import os
import queue
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import markers  # noqa: E402

AGENT = HERE.parent.parent / "pyserver" / "ridgeline" / "agent" / "main.py"
STEPS = 12
TIMEOUT = 90
LAST_S = 15
"""Nothing is begun with less time left."""
PAIRS = 5
WARM = 5
"""Steps of a timed run before the clock starts."""
FEWEST, MOST, SECONDS = 10, 5000, 0.55
"""Steps of a timed run: as many as take so long."""


def record(
    program: markers.Seeded,
    runs: Path,
    programs: Path,
    device: str,
    environment: dict[str, str] | None = None,
    timeout: float = TIMEOUT,
) -> dict[str, Any]:
    """One run folder; what happened, for the log. ``environment`` is the process's own if there is none."""
    script = programs / f"{program.name}.py"
    script.write_text(program.recorded, encoding="utf-8")
    folder = runs / program.name
    folder.mkdir(parents=True)
    spec = folder / "spec.json"
    spec.write_text(
        json.dumps(
            {
                "run_dir": str(folder),
                "target": str(script),
                "steps": STEPS,
                "then": "stop",
                "device": device,
                "lengths": "--lengths" in program.options,
                "memory": "--memory" in program.options,
            }
        ),
        encoding="utf-8",
    )
    started = time.monotonic()
    with (folder / "log.txt").open("wb") as log:
        try:
            code: int | None = subprocess.run(
                [sys.executable, str(AGENT), str(spec)],
                stdout=log,
                stderr=log,
                cwd=programs,
                env=environment,
                timeout=timeout,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            code = None
    return {
        "name": program.name,
        "exit_status": code,
        "seconds": round(time.monotonic() - started, 1),
        "has": sorted(p.name for p in folder.iterdir() if p.name in ("sidecar.json", "trace.json.gz")),
    }


def missing(programs: list[markers.Seeded]) -> set[str]:
    """Programs without a recording of their text in ``frozen/``."""
    archive = HERE / "frozen" / "runs.tar.xz"
    if not archive.is_file():
        return {p.name for p in programs}
    with tempfile.TemporaryDirectory(prefix="frozen_") as folder, tarfile.open(archive) as packed:
        sidecars = [m for m in packed.getmembers() if m.name.endswith("/sidecar.json")]
        packed.extractall(folder, sidecars, filter="data")
        texts = {
            Path(m.name).parent.name: {f["sha256"] for f in json.loads((Path(folder) / m.name).read_text())["files"]}
            for m in sidecars
        }
    return {p.name for p in programs if not p.digests & texts.get(p.name, set())}


def rehearsed(program: markers.Seeded) -> markers.Seeded:
    """The program for a CPU."""
    mended = program.mended.replace('"cuda"', '"cpu"') if program.mended is not None else None
    return dataclasses.replace(program, faulty=program.faulty.replace('"cuda"', '"cpu"'), mended=mended)


class StepClock:
    """Times the steps of a program's own loop, ``for _ in range(steps)`` or ``for step, x in enumerate(loader)``, from the
    inside: its preparation, which varies by more than many mends save, is not in it."""

    def __init__(self, steps: int, wait: Callable[[], None]) -> None:
        self.steps, self._wait = steps, wait
        self._begin: float | None = None
        self._end: float | None = None
        self._count = 0

    def range(self, *arguments: int) -> Iterable[int]:
        return self._timed(range(*arguments)) if arguments == (self.steps,) else range(*arguments)

    def enumerate(self, items: Iterable[Any], *start: int) -> Iterable[tuple[int, Any]]:
        return self._timed(enumerate(items, *start)) if hasattr(items, "dataset") else enumerate(items, *start)

    def _timed(self, items: Iterable[Any]) -> Iterator[Any]:
        count = 0
        for k, item in enumerate(items):
            count = k + 1
            if k == WARM:
                self._wait()
                self._begin = time.perf_counter()
            if k == self.steps:  # the loop breaks here
                self._stop(k)
            yield item
        self._stop(count)

    def _stop(self, count: int) -> None:
        if self._end is None:
            self._wait()
            self._end, self._count = time.perf_counter(), count

    @property
    def step_us(self) -> float:
        if self._begin is None or self._end is None:
            raise RuntimeError("the program has no loop over its steps")
        return 1e6 * (self._end - self._begin) / (self._count - WARM)


def timed_pairs(program: markers.Seeded) -> list[list[float]]:
    """[faulty µs, mended µs] per step, pair after pair."""
    import torch

    def wait() -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    def step_us(text: str, steps: int) -> float:
        clock = StepClock(WARM + steps, wait)
        module = types.ModuleType("seeded")
        vars(module).update(range=clock.range, enumerate=clock.enumerate)
        sys.modules["seeded"] = module  # dataclasses look their module up
        exec(compile(text, f"{program.name}.py", "exec"), vars(module))  # our own programs, from this folder
        module.main(clock.steps)
        torch.set_float32_matmul_precision("highest")
        return clock.step_us

    def enough(text: str) -> int:
        """Steps of ``SECONDS``, by a shorter run that is warm already."""
        steps = FEWEST
        for share in (0.2, 1.0):
            steps = max(FEWEST, min(MOST, int(1e6 * SECONDS * share / step_us(text, steps))))
        return steps

    assert program.mended is not None
    sides = [(text, enough(text)) for text in (program.faulty, program.mended)]
    return [[step_us(text, steps) for text, steps in sides] for _ in range(PAIRS)]


def visible(number: int) -> str:
    """``CUDA_VISIBLE_DEVICES`` of a lane: one of those that this process may use."""
    allowed = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return allowed[number % len(allowed)] if allowed else str(number)


class Results:
    """What all lanes have so far, on disk after every program."""

    def __init__(self, out: Path) -> None:
        self._out, self._lock = out, threading.Lock()
        self.log: list[dict[str, Any]] = []
        self.pairs: dict[str, Any] = {}

    def add(self, entry: dict[str, Any], pairs: Any = None) -> None:
        with self._lock:
            self.log.append(entry)
            (self._out / "log.json").write_text(json.dumps(self.log, indent=1), encoding="utf-8")
            if pairs is not None:
                self.pairs[entry["name"]] = pairs
                (self._out / "pairs.json").write_text(json.dumps(self.pairs, indent=1), encoding="utf-8")
            print(entry, *([] if pairs is None else [pairs]), flush=True)


def paired(program: markers.Seeded, rehearse: bool, work: Path, environment: dict[str, str], timeout: float) -> Any:
    """``timed_pairs`` in a process of its own; what went wrong, if it did."""
    out = work / f"{program.name}.pairs.json"
    command = [sys.executable, str(Path(__file__).resolve()), str(out), "--child", program.name]
    try:
        done = subprocess.run(
            command + ["--rehearse"] * rehearse,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "no time left"
    if not out.is_file():
        return f"exit {done.returncode}: {done.stderr[-300:]}"
    return json.loads(out.read_text(encoding="utf-8"))


def lane(
    number: int, jobs: queue.Queue[tuple[markers.Seeded, bool, bool]], results: Results, options: Any, end: float
) -> None:
    """One device: program after program, its run folder into the lane's archive, its pairs into the common file."""
    device = "cpu" if options.rehearse else "cuda"
    archive = options.out / f"runs_{number}.tar.xz"
    with tempfile.TemporaryDirectory(prefix=f"seeded_{number}_", ignore_cleanup_errors=True) as folder:
        work = Path(folder)
        for name in ("programs", "runs", "temporary"):
            (work / name).mkdir()
        environment = {
            **os.environ,
            "CUDA_VISIBLE_DEVICES": visible(number),
            "TMPDIR": str(work / "temporary"),
            "TORCHINDUCTOR_CACHE_DIR": str(work / "inductor"),
        }
        if options.rehearse:
            environment["OMP_NUM_THREADS"] = "1"
        with tarfile.open(archive, "w:xz", preset=2) as packed:
            while True:
                try:
                    program, recorded, timed = jobs.get_nowait()
                except queue.Empty:
                    break
                if time.monotonic() > end - LAST_S:
                    results.add({"name": program.name, "skipped": "no time left"})
                    continue
                if recorded:
                    left = max(LAST_S, end - time.monotonic())
                    entry = record(program, work / "runs", work / "programs", device, environment, min(TIMEOUT, left))
                    _unpacked(work / "runs" / program.name)
                    packed.add(work / "runs" / program.name, f"runs/{program.name}")
                    results.add({**entry, "lane": number})
                if timed and program.mended is not None and time.monotonic() < end - LAST_S:
                    began = time.monotonic()
                    found = paired(program, options.rehearse, work, environment, min(TIMEOUT, end - began))
                    took = round(time.monotonic() - began, 1)
                    results.add({"name": program.name, "pairs_seconds": took, "lane": number}, found)


def _unpacked(run: Path) -> None:
    """The trace as a gzip file without compression, so that xz sees its text."""
    path = run / "trace.json.gz"
    if path.is_file():
        text = gzip.decompress(path.read_bytes())
        with gzip.open(path, "wb", compresslevel=0) as out:
            out.write(text)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--budget", type=float, default=340.0)
    parser.add_argument("--lanes", type=int, default=1, help="devices to use at once")
    parser.add_argument("--record", nargs="*", help="record these (default: all), time no pairs unless asked for")
    parser.add_argument(
        "--pairs", nargs="*", help="time these (default: all with a mend), record nothing unless asked for"
    )
    parser.add_argument("--missing", action="store_true", help="record what frozen/ has no recording of")
    parser.add_argument("--rehearse", action="store_true", help="on a CPU, to see that everything is in place")
    parser.add_argument("--child", metavar="NAME", help=argparse.SUPPRESS)
    options = parser.parse_args()
    end = time.monotonic() + options.budget
    programs = markers.read_all(HERE / "device")
    if options.rehearse:
        programs = [rehearsed(p) for p in programs]
    if options.child:
        (program,) = (p for p in programs if p.name == options.child)
        options.out.write_text(json.dumps(timed_pairs(program)), encoding="utf-8")
        return
    options.out.mkdir(parents=True, exist_ok=True)
    jobs: queue.Queue[tuple[markers.Seeded, bool, bool]] = queue.Queue()
    for job in chosen(programs, options.record, options.pairs, missing(programs) if options.missing else None):
        jobs.put(job)
    results = Results(options.out)
    lanes = [threading.Thread(target=lane, args=(n, jobs, results, options, end)) for n in range(options.lanes)]
    for thread in lanes:
        thread.start()
    for thread in lanes:
        thread.join()


def chosen(
    programs: list[markers.Seeded], record: list[str] | None, pairs: list[str] | None, lacking: set[str] | None
) -> list[tuple[markers.Seeded, bool, bool]]:
    """(program, whether to record it, whether to time it): recordings first, if the time is not enough for both."""
    both = record is None and pairs is None
    named = [*(record or []), *(pairs or [])]
    known = {p.name: p for p in programs}
    if unknown := set(named) - set(known):
        raise SystemExit(f"no such programs: {', '.join(sorted(unknown))}")

    def of(names: list[str] | None) -> list[markers.Seeded]:
        if names is None:
            return programs if both else []
        return [known[name] for name in names] or programs

    recorded = [(p, True, False) for p in of(record) if lacking is None or p.name in lacking]
    return recorded + [(p, False, True) for p in of(pairs) if p.mended is not None]


if __name__ == "__main__":
    main()
