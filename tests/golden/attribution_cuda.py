"""The programs with known lines on a CUDA machine: run there once, the run folders are kept as golden recordings.

``python tests/golden/attribution_cuda.py OUT`` profiles every program under the agent into ``OUT/NAME`` and prints, for
each, the share of device time on statements, how many launches were checked against the marks, and every one that is wrong.
Exit status 1 if any is.
"""

from __future__ import annotations

import sys
from pathlib import Path

from attribution_runs import PROGRAMS, Run, expected, marks, record
from ridgeline.inductor.names import take_apart

RUNS = (("eager_loop.py",), ("fused.py",), ("trained.py", "mine"), ("trained.py", "library"), ("threads.py",))


def wrong_rows(run: Run, wanted: dict[str, int]) -> tuple[int, list[str]]:
    """(launches that were checked, descriptions of the wrong ones)"""
    checked, wrong = 0, []
    for row in range(len(run.work.start)):
        lines = run.lines(row)
        ops = take_apart(run.symbol(row)).ops
        if ops:
            marked = {wanted[op] for op in ops if op in wanted}
            if any(ref.library for ref in run.refs(row)):  # a library's model: the user's call of the region
                checked += 1
                if lines != {wanted["region"]}:
                    wrong.append(f"{run.symbol(row)}: {sorted(lines)}, the region is called on {wanted['region']}")
            elif marked:
                checked += 1
                if not marked <= lines:
                    wrong.append(f"{run.symbol(row)}: {sorted(lines)}, marked {sorted(marked)}")
        elif (line := expected(run, row, wanted)) is not None and lines and run.attribution.site[row] < 0:
            checked += 1
            if lines != {line}:
                wrong.append(f"{run.ancestors(row)[:2]}: {sorted(lines)}, marked {line}")
    return checked, wrong


def main() -> int:
    out = Path(sys.argv[1])
    failed = False
    for program, *args in RUNS:
        name = "_".join([program.removesuffix(".py"), *args])
        run = record(PROGRAMS / program, out / name, *args, cache=out / "inductor")
        time = run.work.time
        covered = sum(float(time[r]) for r in range(len(time)) if run.lines(r)) / max(float(time.sum()), 1e-9)
        checked, wrong = wrong_rows(run, marks(run.program))
        print(
            f"{name:<18} {len(time):6d} launches, {100 * covered:6.2f}% of device time on statements, {checked} checked, {len(wrong)} wrong"
        )
        for text in wrong[:10]:
            print(f"    {text}")
        failed = failed or bool(wrong) or not checked
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
