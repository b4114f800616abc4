"""Mended programs against faulty ones: is the promised saving the real one?

    python tests/seeded/savings.py cpu [NAME…]        live on this machine
    python tests/seeded/savings.py frozen [NAME…]     from frozen/runs.tar.xz and frozen/pairs.json (``record_device.py``)

Promised: the finding's saving over the recorded step. Real: 1 - mended/faulty time of a step, unprofiled, median of five
alternating pairs. Within 0.7 to 1.3 of the promise counts.

A pair is two fresh processes that take turns of a tenth of a second until each has had ``SECONDS`` (``turns.py``). Before, a side
was the time of 24 steps less that of 4, preparation and all, in one process with all the others: of steps of one to five
milliseconds that is 20 to 100 ms, and single pairs of one program differed by 20 to 60 points.

On a CPU the clock is the process's own (``time.process_time``, one thread), so that a busy machine does not decide; for
waiting (``data-loading``) it is the wall.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import markers  # noqa: E402
import suite  # noqa: E402

PAIRS = 5
SECONDS = 1.0
"""Of a side of a pair, in whole steps, of which one takes from half a millisecond to a second."""
LOW, HIGH = 0.7, 1.3


class Row(NamedTuple):
    name: str
    code: str
    promised_pct: float | None
    real_pct: float | None
    least_pct: float | None = None
    most_pct: float | None = None
    """Of the single pairs."""

    @property
    def told(self) -> bool:
        """Whether every pair says that the mend saves something, or every one that it costs: else the effect is no larger than
        what two runs differ by."""
        return self.least_pct is None or self.most_pct is None or self.least_pct * self.most_pct > 0

    @property
    def ratio(self) -> float | None:
        if not self.promised_pct or self.real_pct is None:
            return None
        return self.real_pct / self.promised_pct


def promised(document: dict[str, Any], code: str) -> float | None:
    """Per cent of the step that all findings of a code promise together (the mend takes away all of them)."""
    found = [f for f in document["findings"] if f["code"] == code and f["step_gain_pct"] is not None]
    return sum(f["step_gain_pct"] for f in found) if found else None


def real(pairs: Sequence[Sequence[float]]) -> float:
    """Median over pairs of the share that mending took away, in per cent."""
    return 100.0 * statistics.median(1.0 - mended / faulty for faulty, mended in pairs)


def row_of(name: str, code: str, document: dict[str, Any], pairs: Sequence[Sequence[float]]) -> Row:
    each = [100.0 * (1.0 - mended / faulty) for faulty, mended in pairs]
    return Row(name, code, promised(document, code), real(pairs), min(each), max(each))


def timed_pairs(program: markers.Seeded, work: Path, clock: str) -> list[list[float]]:
    """[faulty µs, mended µs] per step, pair after pair (``turns.py``)."""
    faulty, mended = work / f"{program.name}_a.py", work / f"{program.name}_b.py"
    faulty.write_text(program.faulty, encoding="utf-8")
    mended.write_text(program.mended or "", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(HERE / "turns.py"), str(faulty), str(mended), clock, str(PAIRS), str(SECONDS)],
        stdout=subprocess.PIPE,
        stderr=None if os.environ.get("SEEDED_VERBOSE") else subprocess.DEVNULL,
        text=True,
        timeout=suite.TIMEOUT,
        check=True,
        cwd=work,
        env={"OMP_NUM_THREADS": "1", **os.environ},
    )
    rows: list[list[float]] = json.loads(done.stdout.strip().splitlines()[-1])
    return rows


def live(programs: Sequence[markers.Seeded]) -> list[Row]:
    rows = []
    with tempfile.TemporaryDirectory(prefix="savings_") as folder:
        for program in programs:
            code = program.expected[0][0]
            document = suite.run_live(program, Path(folder))
            clock = "perf_counter" if code == "data-loading" else "process_time"
            pairs = timed_pairs(program, Path(folder), clock)
            rows.append(row_of(program.name, code, document, pairs))
            print(line(rows[-1]), file=sys.stderr, flush=True)
    return rows


def frozen(programs: Sequence[markers.Seeded]) -> list[Row]:
    from ridgeline import profile_io
    from ridgeline.analysis import analyze_run

    pairs = json.loads((HERE / "frozen" / "pairs.json").read_text(encoding="utf-8"))
    rows = []
    with tempfile.TemporaryDirectory(prefix="savings_") as folder:
        with tarfile.open(HERE / "frozen" / "runs.tar.xz") as packed:
            packed.extractall(folder, filter="data")
        for program in programs:
            run = Path(folder) / "runs" / program.name
            if not isinstance(pairs.get(program.name), list) or not (run / "sidecar.json").is_file():
                continue
            if not suite.is_of(program, run):
                continue
            document = json.loads(profile_io.to_json(analyze_run(run)))
            code = program.expected[0][0]
            rows.append(row_of(program.name, code, document, pairs[program.name]))
    return rows


def line(row: Row) -> str:
    def cell(value: float | None, unit: str = "%") -> str:
        return "     -" if value is None else f"{value:5.1f}{unit}"

    kept = row.ratio is not None and LOW <= row.ratio <= HIGH
    return (
        f"{row.name:28} {row.code:24} promised {cell(row.promised_pct)} real {cell(row.real_pct)} ({cell(row.least_pct)} to "
        f"{cell(row.most_pct)}) ratio {cell(row.ratio, '')} {'ok' if kept else '--'}{'' if row.told else ' (noise)'}"
    )


def table(rows: Sequence[Row]) -> str:
    """One row a program; the last lines say how many promises were kept, of all and of those whose pairs agree in sign."""
    return "\n".join(
        [*map(line, rows), _kept(rows, ""), _kept([r for r in rows if r.told], ", of pairs that agree in sign")]
    )


def _kept(rows: Sequence[Row], of: str) -> str:
    judged = [r for r in rows if r.ratio is not None]
    kept = sum(LOW <= (r.ratio or 0.0) <= HIGH for r in judged)
    share = f"{100.0 * kept / len(judged):.0f} %" if judged else "-"
    return f"{kept} of {len(judged)} promises kept within {LOW} to {HIGH} ({share}){of}"


def main(arguments: Sequence[str]) -> int:
    which = arguments[0] if arguments else "cpu"
    folder = HERE / ("device" if which == "frozen" else "cpu")
    programs = [
        p
        for p in markers.read_all(folder)
        if p.mended and p.expected and (len(arguments) < 2 or p.name in arguments[1:])
    ]
    print(table(frozen(programs) if which == "frozen" else live(programs)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
