"""``ridgeline time``: one expression under ``torch.utils.benchmark`` in the user's interpreter."""

from __future__ import annotations

import json
import math
import os
import statistics
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ridgeline.cli_common import (
    FAILED,
    CommandError,
    check_format,
    check_seconds,
    environment,
    interpreter,
    text_console,
    write_json,
)
from ridgeline.profile import ProfileDocument
from ridgeline.runs import processes

STABLE_IQR = 0.10
"""A measurement whose interquartile range is more than a tenth of its median is called unstable, as torch's own
``Measurement`` warns (``_IQR_WARN_THRESHOLD`` in ``torch/utils/benchmark/utils/common.py``)."""
MAX_TIMED = 8
"""Statements of one run: each starts an interpreter."""
FEW_BLOCKS = 4
"""Below this there is no interquartile range worth the name."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Microseconds a call."""

    statement: str
    setup: str
    threads: int
    median_us: float
    iqr_us: float | None
    q1_us: float | None
    q3_us: float | None
    min_us: float
    blocks: int
    calls: int
    unstable: str | None
    """Why not to trust it, ``None`` for a steady measurement."""
    torch: str
    python: str
    device: str


def timing(request: dict[str, Any], result: dict[str, Any]) -> Timing:
    """Median and quartiles of the blocks' times (seconds a call in ``times_s``)."""
    times = sorted(t * 1e6 for t in result["times_s"])
    median = statistics.median(times)
    q1 = q3 = iqr = None
    if len(times) >= FEW_BLOCKS:
        q1, _, q3 = statistics.quantiles(times, n=4, method="inclusive")
        iqr = q3 - q1
    if iqr is None:
        unstable = (
            f"only {len(times)} block{'s' if len(times) != 1 else ''} in the time given: use a longer --min-run-time"
        )
    elif iqr > STABLE_IQR * median:
        unstable = f"the middle half of the blocks spreads over {iqr / median:.0%} of the median: the machine is busy, or clocks change"
    else:
        unstable = None
    return Timing(
        statement=request["statement"],
        setup=request["setup"],
        threads=result["threads"],
        median_us=median,
        iqr_us=iqr,
        q1_us=q1,
        q3_us=q3,
        min_us=times[0],
        blocks=len(times),
        calls=len(times) * result["calls_per_block"],
        unstable=unstable,
        torch=result["torch"],
        python=result["python"],
        device=result["device"],
    )


def run(
    statement: str,
    *,
    setup: str,
    threads: int,
    min_run_time: float,
    python: str | None,
    cwd: Path | None,
    env: list[str],
    format: str,
    output: Path | None,
) -> None:
    """Raises :class:`CommandError`."""
    check_format(format)
    check_seconds("--min-run-time", min_run_time)
    request = {"statement": statement, "setup": setup, "threads": threads, "min_run_time": min_run_time}
    # Standard output carries the result alone: what the statement prints goes elsewhere.
    request["output"] = "stderr" if format == "json" and output is None else "stdout"
    result = measure(request, interpreter(python), cwd=str(cwd or Path.cwd()), env={**os.environ, **environment(env)})
    measured = timing(request, result)
    if format == "json":
        write_json(json.dumps(asdict(measured), allow_nan=False).encode(), output)
        return
    with text_console(output) as console:
        console.print(sentence(measured), highlight=False)


def run_of(
    path: Path,
    *,
    threads: int,
    min_run_time: float,
    python: str | None,
    env: list[str],
    format: str = "text",
    output: Path | None,
) -> None:
    """Times what a run's findings ask to have timed (``evidence.time``: a product, and padded), keeps it in the run folder and
    analyzes the run anew: the findings then speak of what was measured. As JSON ``{timings, findings}``: every measurement, and
    the findings that asked. Raises :class:`CommandError`."""
    from ridgeline.analysis import TIMED, analyze_run, publish
    from ridgeline.profile_io import UnreadableError
    from ridgeline.runs.store import StoreError, resolve_run

    check_format(format)
    check_seconds("--min-run-time", min_run_time)
    try:
        folder = path if (path / "sidecar.json").is_file() else resolve_run(path).path
        asked = _asked(analyze_run(folder))
    except (StoreError, UnreadableError) as error:
        raise CommandError(str(error)) from error
    if not asked:
        raise CommandError(f"{folder}: none of its findings asks for a measurement")
    request = {"setup": "pass", "threads": threads, "min_run_time": min_run_time, "output": "stderr"}
    found = []
    for statement in asked:
        one = {**request, "statement": statement}
        result = measure(one, interpreter(python), cwd=str(Path.cwd()), env={**os.environ, **environment(env)})
        found.append(timing(one, result))
    known = {
        "statements": {t.statement: t.median_us for t in found},
        "torch": found[0].torch,
        "device": found[0].device,
    }
    (folder / TIMED).write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    document = analyze_run(folder)
    publish(document, folder)
    answered = [finding for finding in document.findings if finding.evidence.get("time")]
    if format == "json":
        both = {"timings": [asdict(t) for t in found], "findings": [asdict(f) for f in answered]}
        write_json(json.dumps(both, allow_nan=False).encode(), output)
        return
    with text_console(output) as console:
        for measured in found:
            console.print(sentence(measured), highlight=False)
        for finding in answered:
            place = f"{Path(finding.file).name}:{finding.line}  " if finding.file else ""
            console.print(f"{place}{finding.message}", highlight=False)


def _asked(document: ProfileDocument) -> list[str]:
    """Statements, each once, those of the first findings first."""
    rows = [finding.evidence.get("time") for finding in document.findings]
    return list(dict.fromkeys(s for row in rows if isinstance(row, list) for s in row if isinstance(s, str)))[
        :MAX_TIMED
    ]


def measure(request: dict[str, Any], python: str, *, cwd: str, env: dict[str, str]) -> dict[str, Any]:
    """Runs the agent that times; its result. Raises :class:`CommandError` with what the statement raised."""
    script = Path(__file__).resolve().parent / "runs" / "time_agent.py"
    with tempfile.TemporaryDirectory(prefix="ridgeline-time-") as folder:
        asked, answer = Path(folder) / "request.json", Path(folder) / "result.json"
        asked.write_text(json.dumps(request), encoding="utf-8")
        try:
            status = processes.run_to_end([python, str(script), str(asked), str(answer)], cwd=cwd, env=env)
        except processes.StartError as error:
            raise CommandError(str(error)) from error
        try:
            result = json.loads(answer.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise CommandError(f"timing ended with status {status} and no result", FAILED) from error
    if result.get("error") == "no-torch":
        raise CommandError(f"{python} has no torch ({result['message']}); choose another interpreter with --python")
    if "error" in result:
        raise CommandError(f"the statement raised {result['message']}", 1)
    assert isinstance(result, dict)
    return result


def sentence(measured: Timing) -> str:
    """One or two lines: median ± IQR, blocks and calls, and a warning where it is not steady."""
    scale, unit = _unit(measured.median_us)
    spread = f"  (IQR {measured.iqr_us * scale:.3g} {unit})" if measured.iqr_us is not None else ""
    line = f"{measured.median_us * scale:.4g} {unit}{spread}  {measured.statement}"
    detail = f"{measured.blocks} blocks, {measured.calls} calls, {measured.threads} thread{'s' if measured.threads != 1 else ''}"
    line += f"\n{detail}, torch {measured.torch} on {measured.device}"
    return line + (f"\nunstable: {measured.unstable}" if measured.unstable else "")


def _unit(us: float) -> tuple[float, str]:
    """Factor from microseconds, and the unit that keeps one to three digits before the point."""
    if us <= 0 or not math.isfinite(us):
        return 1.0, "µs"
    for limit, factor, unit in ((1.0, 1e3, "ns"), (1e3, 1.0, "µs"), (1e6, 1e-3, "ms")):
        if us < limit:
            return factor, unit
    return 1e-6, "s"
