"""Scores the autotune candidates against what a search found.

usage: python tests/golden/candidate_score.py CAPTURE…      (folders with trace.json.gz, generated.tar.gz, autotune.jsonl)

A kernel gains if coordinate descent made it at least 5 % faster. Recoverable time: (default - tuned) of those that gain,
weighted by the launches of the recorded steps. Kernels under 3 us in the trace are left out: their times are noise.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path

from ridgeline.analysis import Recording, analyze
from ridgeline.roofline.autotune import SHORTEST_US

GAIN = 1.05


@dataclass(slots=True)
class Tried:
    name: str
    flagged: bool
    speedup: float
    saved_us: float


def score_capture(folder: Path) -> list[Tried]:
    generated = folder / "generated.tar.gz"
    document = analyze(Recording(trace=folder / "trace.json.gz", generated=generated))
    by_file = {Path(g.file).stem: k for k in document.kernels for g in k.generated}
    rows = []
    for line in (folder / "autotune.jsonl").read_text().splitlines():
        truth = json.loads(line)
        kernel = by_file.get(truth["file"])
        if kernel is None or kernel.median_us <= SHORTEST_US or "ms" not in truth["default"] or "ms" not in truth["cd"]:
            continue
        before, after = truth["default"]["ms"], truth["cd"]["ms"]
        share = max(0.0, 1 - after / before) if before / after >= GAIN else 0.0
        rows.append(Tried(kernel.symbol, kernel.autotune is not None, before / after, share * kernel.total_us))
    return rows


def summary(rows: list[Tried]) -> dict[str, float]:
    gains = [r for r in rows if r.speedup >= GAIN]
    flagged = [r for r in rows if r.flagged]
    hits = [r for r in flagged if r.speedup >= GAIN]
    total = math.fsum(r.saved_us for r in gains)
    return {
        "kernels": len(rows),
        "gaining": len(gains),
        "flagged": len(flagged),
        "precision": len(hits) / len(flagged) if flagged else math.nan,
        "recall": len(hits) / len(gains) if gains else math.nan,
        "recoverable_time": math.fsum(r.saved_us for r in hits) / total if total else math.nan,
    }


def main(folders: list[str]) -> int:
    everything: list[Tried] = []
    for folder in folders:
        rows = score_capture(Path(folder))
        everything += rows
        print(Path(folder).name, {k: round(v, 3) for k, v in summary(rows).items()})
    print("all", {k: round(v, 3) for k, v in summary(everything).items()})
    for row in sorted(everything, key=lambda r: -r.saved_us):
        if row.flagged != (row.speedup >= GAIN):
            print(f"  {'flagged' if row.flagged else 'missed ':8} {row.speedup:.2f}x {row.saved_us:7.1f} us {row.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
