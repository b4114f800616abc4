"""Records the seeded device programs on a machine with a CUDA device, for ``frozen/``.

    python tests/seeded/record_device.py OUT_FOLDER [--budget SECONDS] [--record NAME…] [--missing]
        [--pairs [NAME…]] [--rehearse]

Needs torch and the standard library alone. Every program runs under the agent as ``ridgeline profile`` would start it; the
run folders go into ``OUT_FOLDER/runs.tar.gz``. With what is left of the budget, faulty and mended programs are timed
against each other, unprofiled, in alternating pairs: ``OUT_FOLDER/pairs.json``. ``--missing`` records only the programs
that ``frozen/runs.tar.xz`` has no recording of; ``--pairs`` records nothing and times these (all that have a mend), in this
order. A side of a pair is at least 0.3 s of steps; six or seven seconds a program. Afterwards ``pack.py`` makes the archive of the repository.

``--rehearse`` runs the same programs on a CPU, with "cuda" in their text replaced: it shows that everything is in place.
Programs that need a device fail in a rehearsal, and the log says so.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import markers  # noqa: E402

AGENT = HERE.parent.parent / "pyserver" / "ridgeline" / "agent" / "main.py"
STEPS = 12
TIMEOUT = 90
PAIRS = 5
WARM = 5
"""Steps of a timed run before the clock starts."""
FEWEST, MOST, SECONDS = 10, 1000, 0.3
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
        for k, item in enumerate(items):
            if k == WARM:
                self._wait()
                self._begin = time.perf_counter()
            if k == self.steps:  # the loop breaks here
                self._stop(k)
            yield item
        self._stop(self.steps)

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
        scope: dict[str, Any] = {"__name__": "seeded", "range": clock.range, "enumerate": clock.enumerate}
        exec(compile(text, f"{program.name}.py", "exec"), scope)  # our own programs, from this folder
        scope["main"](clock.steps)
        torch.set_float32_matmul_precision("highest")
        return clock.step_us

    assert program.mended is not None
    step_us(program.mended, FEWEST)
    steps = max(FEWEST, min(MOST, int(1e6 * SECONDS / step_us(program.faulty, FEWEST))))
    return [[step_us(program.faulty, steps), step_us(program.mended, steps)] for _ in range(PAIRS)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--budget", type=float, default=340.0)
    parser.add_argument("--record", nargs="*", help="record these only (default: all); pairs are timed for all")
    parser.add_argument("--missing", action="store_true", help="record what frozen/ has no recording of")
    parser.add_argument("--pairs", nargs="*", help="record nothing, time these (default: all that have a mend)")
    parser.add_argument("--rehearse", action="store_true", help="on a CPU, to see that everything is in place")
    options = parser.parse_args()
    started = time.monotonic()
    options.out.mkdir(parents=True, exist_ok=True)
    programs = markers.read_all(HERE / "device")
    wanted = {p.name for p in programs} if options.record is None else set(options.record)
    timed = programs if not options.pairs else [p for name in options.pairs for p in programs if p.name == name]
    wanted = set() if options.pairs is not None else wanted
    wanted &= missing(programs) if options.missing else wanted
    device = "cpu" if options.rehearse else "cuda"
    if options.rehearse:
        programs, timed = [rehearsed(p) for p in programs], [rehearsed(p) for p in timed]
    work = Path(tempfile.mkdtemp(prefix="seeded_"))
    (work / "programs").mkdir()
    (work / "runs").mkdir()
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(work / "inductor"))
    log = []
    for program in programs:
        if program.name not in wanted:
            continue
        if time.monotonic() - started > options.budget - 15:
            log.append({"name": program.name, "skipped": "no time left"})
            continue
        log.append(record(program, work / "runs", work / "programs", device))
        print(log[-1], flush=True)
        _pack(options.out, work, log)
    pairs: dict[str, Any] = {}
    for program in timed:
        if (
            program.mended is None
            or (options.rehearse and options.pairs is None and program.name not in wanted)
            or time.monotonic() - started > options.budget - 15
        ):
            continue
        try:
            pairs[program.name] = timed_pairs(program)
        except Exception as error:  # noqa: BLE001  one program's failure must not cost the others' results
            pairs[program.name] = f"{type(error).__name__}: {error}"
        print(program.name, pairs[program.name], flush=True)
        (options.out / "pairs.json").write_text(json.dumps(pairs, indent=1), encoding="utf-8")


def _pack(out: Path, work: Path, log: list[dict[str, Any]]) -> None:
    """After every program, so that a run cut short leaves what it has."""
    (out / "log.json").write_text(json.dumps(log, indent=1), encoding="utf-8")
    partial = out / "runs.tar.gz.part"
    with tarfile.open(partial, "w:gz", compresslevel=6) as archive:
        archive.add(work / "runs", "runs")
    partial.replace(out / "runs.tar.gz")


if __name__ == "__main__":
    main()
