"""Runs seeded programs, compares what was found with what was put in, and prints the table.

    python tests/seeded/suite.py [cpu|frozen] [NAME…]

``cpu``: every program of ``cpu/`` live under ``ridgeline profile``. ``frozen``: the recordings of ``device/`` in ``frozen/``.

Found counts when code and line are right: the marked line, or one that the program's author allows for the same finding
(``may``; the table names it). Wrong is every finding above hint that was neither put in nor allowed
(``summary`` speaks of the others and is not counted). Hints never count as wrong.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import markers  # noqa: E402

TIMEOUT = 600


@dataclass(slots=True, kw_only=True)
class Outcome:
    name: str
    expected: tuple[tuple[str, int], ...]
    found: list[tuple[str, int]] = field(default_factory=list)
    beside: list[tuple[str, int]] = field(default_factory=list)
    """Of those that count as found, where they were found: not at the mark, but at a line that is allowed."""
    missed: list[tuple[str, int]] = field(default_factory=list)
    wrong: list[tuple[str, int | None]] = field(default_factory=list)
    error: str | None = None
    findings: list[dict[str, Any]] = field(default_factory=list)


def judge(program: markers.Seeded, findings: Sequence[dict[str, Any]]) -> Outcome:
    """What of it was found, what was missed, what is wrong."""
    have = {(f["code"], f["line"]) for f in findings}
    allowed = {*program.expected, *program.allowed, *((code, None) for code, _ in program.allowed)}
    above = [f for f in findings if f["severity"] != "hint" and f["code"] != "summary"]
    beside = {code: (code, line) for code, line in reversed(program.allowed) if (code, line) in have}
    return Outcome(
        name=program.name,
        expected=program.expected,
        found=[e for e in program.expected if e in have or e[0] in beside],
        beside=[beside[e[0]] for e in program.expected if e not in have and e[0] in beside],
        missed=[e for e in program.expected if e not in have and e[0] not in beside],
        wrong=[(f["code"], f["line"]) for f in above if (f["code"], f["line"]) not in allowed],
        findings=list(findings),
    )


def run_live(program: markers.Seeded, work: Path, text: str | None = None) -> dict[str, Any]:
    """The profile document of one program. Raises RuntimeError with what was printed if there is none."""
    script = work / f"{program.name}.py"
    script.write_text(program.faulty if text is None else text, encoding="utf-8")
    output = work / f"{program.name}.json"
    command = [sys.executable, "-m", "ridgeline.cli", "profile", str(script), "--then", "stop", "--format", "json"]
    command += ["--output", str(output), "--run-dir", str(work / f"run_{program.name}"), *program.options]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT, check=False, cwd=work, env=_environment()
    )
    if not output.is_file():
        raise RuntimeError(f"exit {done.returncode}: {(done.stderr or done.stdout).strip()[-600:]}")
    document: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    if document["source"]["exit_status"] not in (0, None):
        raise RuntimeError(f"{program.name} fails by itself: {done.stderr.strip()[-600:]}")
    return document


def _environment() -> dict[str, str]:
    root = HERE.parent.parent
    path = os.pathsep.join(filter(None, [str(root / "pyserver"), os.environ.get("PYTHONPATH", "")]))
    # One thread: on a machine that others use as well, threads that wait for one another measure the others.
    return {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": path}


def live(programs: Iterable[markers.Seeded], report: Callable[[Outcome], None]) -> list[Outcome]:
    """Each program profiled on this machine."""
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="seeded_") as folder:
        for program in programs:
            try:
                outcome = judge(program, run_live(program, Path(folder))["findings"])
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                outcome = Outcome(
                    name=program.name, expected=program.expected, missed=list(program.expected), error=str(error)
                )
            outcomes.append(outcome)
            report(outcome)
    return outcomes


def frozen(programs: Iterable[markers.Seeded], archive: Path, report: Callable[[Outcome], None]) -> list[Outcome]:
    """Recordings of a device machine, analyzed here."""
    from ridgeline import profile_io
    from ridgeline.analysis import analyze_run

    outcomes = []
    with tempfile.TemporaryDirectory(prefix="frozen_") as folder:
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        for program in programs:
            run = Path(folder) / "runs" / program.name
            if not (run / "sidecar.json").is_file() or not is_of(program, run):
                continue
            try:
                document = json.loads(profile_io.to_json(analyze_run(run)))
                outcome = judge(program, document["findings"])
            except profile_io.UnreadableError as error:
                outcome = Outcome(
                    name=program.name, expected=program.expected, missed=list(program.expected), error=str(error)
                )
            outcomes.append(outcome)
            report(outcome)
    return outcomes


def is_of(program: markers.Seeded, run: Path) -> bool:
    """Whether a recording is of the program as it stands now: a recording of another text proves nothing about it."""
    sidecar = json.loads((run / "sidecar.json").read_text(encoding="utf-8"))
    return any(f["sha256"] in program.digests for f in sidecar["files"])


def precision(outcomes: Sequence[Outcome]) -> float:
    """Right over all that was said above hint, in per cent; hints that were asked for count as right."""
    right = sum(len(o.found) for o in outcomes)
    wrong = sum(len(o.wrong) for o in outcomes)
    return 100.0 * right / (right + wrong) if right + wrong else 100.0


def recall(outcomes: Sequence[Outcome]) -> float:
    """Found over put in, in per cent."""
    put_in = sum(len(o.expected) for o in outcomes)
    return 100.0 * sum(len(o.found) for o in outcomes) / put_in if put_in else 100.0


def table(outcomes: Sequence[Outcome]) -> str:
    """One row a program, then the totals."""
    rows = []
    for o in outcomes:
        state = "error" if o.error else "ok" if not o.missed and not o.wrong else "MISSED" if o.missed else "WRONG"
        detail = o.error or "; ".join(
            [f"at {c}:{n}" for c, n in o.beside]
            + [f"missed {c}:{n}" for c, n in o.missed]
            + [f"wrong {c}:{n}" for c, n in o.wrong]
        )
        rows.append(
            f"{o.name:28} {', '.join(f'{c}:{n}' for c, n in o.expected) or 'clean':34} {state:7} {detail[:140]}".rstrip()
        )
    faulty, clean = [o for o in outcomes if o.expected], [o for o in outcomes if not o.expected]
    quiet = sum(not o.wrong for o in clean)
    beside = sum(len(o.beside) for o in outcomes)
    rows.append(
        f"{len(faulty)} faulty, {len(clean)} clean: precision {precision(outcomes):.1f} %, recall {recall(outcomes):.1f} %"
        f"{f' ({beside} at an allowed line)' if beside else ''}, "
        f"{quiet} of {len(clean)} clean ones without a finding above hint"
    )
    return "\n".join(rows)


def main(arguments: Sequence[str]) -> int:
    """Prints the table; 1 if precision is below 95 %, recall below 90 %, or a clean program has a finding above hint."""
    which = arguments[0] if arguments else "cpu"
    folder = HERE / ("device" if which == "frozen" else "cpu")
    programs = [p for p in markers.read_all(folder) if len(arguments) < 2 or p.name in arguments[1:]]

    def report(outcome: Outcome) -> None:
        print(table([outcome]).splitlines()[0], file=sys.stderr, flush=True)
        if os.environ.get("SEEDED_VERBOSE"):
            for f in outcome.findings:
                print(
                    f"      {f['severity'][:4]} {f['code']}:{f['line']} {f['message'][:200]} [{f['step_gain_pct']}]",
                    file=sys.stderr,
                )

    outcomes = (
        frozen(programs, HERE / "frozen" / "runs.tar.xz", report) if which == "frozen" else live(programs, report)
    )
    print(table(outcomes))
    loud = any(o.wrong for o in outcomes if not o.expected)
    return int(precision(outcomes) < 95.0 or recall(outcomes) < 90.0 or loud)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
