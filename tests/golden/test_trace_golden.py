"""What the corpus' traces add up to, down to why the device was idle, so that a change of any of it is seen.

python tests/golden/test_trace_golden.py CORPUS     rewrites the expected figures; look at the difference
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ridgeline.trace.exposure import exposure
from ridgeline.trace.gaps import Cause, idle_by_cause
from ridgeline.trace.host import host_wait_us
from ridgeline.trace.reader import read_trace
from ridgeline.trace.work import work_table

EXPECTED = Path(__file__).parent / "data" / "trace_summary.json"


def summary(path: Path) -> dict[str, Any]:
    """Figures of one trace over its steps, µs to a nanosecond."""
    trace = read_trace(path)
    work = work_table(trace)
    device = trace.devices[0].id
    window = (trace.steps[0].start, trace.steps[-1].start + trace.steps[-1].dur)
    idle, gaps = idle_by_cause(trace, device, window)
    shown = exposure(trace, device, window)
    return {
        "events": trace.quality.events,
        "warnings": [warning.code for warning in trace.quality.warnings],
        "units": len(work.time),
        "linked": int((work.call >= 0).sum()),
        "with_operator": int((work.op >= 0).sum()),
        "time_us": round(float(work.time.sum()), 3),
        "window_us": round(window[1] - window[0], 3),
        "busy_us": round(shown.busy.total, 3),
        "exposed_copy_us": round(shown.exposed_copy.total, 3),
        "underfilled_us": None if shown.underfilled is None else round(shown.underfilled.total, 3),
        "host_wait_us": round(host_wait_us(trace, *window), 3),
        "gaps": len(gaps.start),
        "idle": {name: round(getattr(idle, name), 3) for name in (cause.name.lower() for cause in Cause)},
        "steps": [step.name for step in trace.steps],
    }


def summaries(corpus: Path) -> dict[str, Any]:
    return {path.parent.name: summary(path) for path in sorted(corpus.glob("*/trace.json.gz"))}


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        return {key: leaf for name, inner in value.items() for key, leaf in _flat(inner, f"{prefix}/{name}").items()}
    return {prefix: value}


def test_corpus_traces(corpus: Path) -> None:
    expected, found = _flat(json.loads(EXPECTED.read_text())), _flat(summaries(corpus))
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        wanted = pytest.approx(value, abs=0.002) if isinstance(value, float) else value
        assert found[key] == wanted, key


if __name__ == "__main__":
    EXPECTED.write_text(json.dumps(summaries(Path(sys.argv[1])), indent=1) + "\n")
