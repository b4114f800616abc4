"""Running the programs of ``attribution_programs`` under the agent, and the lines that are right by construction.

A line of a program that ends in ``#= name…`` is the only one whose forward runs the ops of these names, so whatever an op
of that name, or a kernel fused from it, or the backward of it, is attributed to must be that line.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import ridgeline
from ridgeline import profile_io
from ridgeline.attribution import Attribution, attribute
from ridgeline.inductor.names import take_apart
from ridgeline.profile import SourceRef
from ridgeline.trace.reader import read_trace
from ridgeline.trace.tables import Trace
from ridgeline.trace.work import WorkTable, work_table

PROGRAMS = Path(__file__).resolve().parent / "attribution_programs"
LIBRARY = PROGRAMS / "fakelib_site" / "site-packages"

_NODE = re.compile(r"^(?P<op>[A-Z]\w*?)Backward\d*$")
_MARK = re.compile(r"#= (?P<names>[\w: ]+)$")


@dataclass(slots=True)
class Run:
    folder: Path
    program: Path
    trace: Trace
    work: WorkTable
    attribution: Attribution

    def symbol(self, row: int) -> str:
        return self.attribution.symbols[int(self.attribution.symbol[row])]

    def op(self, row: int) -> str:
        op = int(self.work.op[row])
        return self.trace.strings[int(self.trace.ops.name[op])] if op >= 0 else ""

    def ancestors(self, row: int) -> list[str]:
        """Names of the row's op and those around it, innermost first."""
        names, op = [], int(self.work.op[row])
        while op >= 0:
            names.append(self.trace.strings[int(self.trace.ops.name[op])])
            op = int(self.trace.ops.parent[op])
        return names

    def refs(self, row: int) -> tuple[SourceRef, ...]:
        source = int(self.attribution.source[row])
        return self.attribution.sources[source] if source >= 0 else ()

    def lines(self, row: int) -> set[int]:
        """The user lines of the program that the row is attributed to."""
        return {ref.line for ref in self.refs(row) if not ref.library and Path(ref.file).name == self.program.name}


def marks(program: Path) -> dict[str, int]:
    """Op name (or ``name:k`` for its k-th place) -> line."""
    found: dict[str, int] = {}
    for number, line in enumerate(program.read_text().splitlines(), start=1):
        if (match := _MARK.search(line)) is not None:
            for name in match["names"].split():
                assert name not in found, f"{name} is marked twice in {program.name}"
                found[name] = number
    return found


def expected(run: Run, row: int, wanted: dict[str, int]) -> int | None:
    """The marked line of an eager op: its own, or that of the forward op whose node it runs under."""
    chain = run.ancestors(row)
    node = next((m for name in chain if (m := _NODE.match(name)) is not None), None)
    if node is not None:
        return wanted.get(node["op"].lower())
    return wanted.get(chain[0].removeprefix("aten::")) if chain else None


def check_eager(run: Run, wanted: dict[str, int]) -> float:
    """Every marked row has its line and no other; returns the share of all time that lies on statements."""
    seen = set()
    for row in range(len(run.work.start)):
        line = expected(run, row, wanted)
        if line is not None and run.lines(row):
            assert run.lines(row) == {line}, (run.ancestors(row), run.lines(row), line)
            seen.add(line)
    assert seen == set(wanted.values())
    time = run.work.time
    return float(sum(time[r] for r in range(len(time)) if run.lines(r)) / time.sum())


def fused_lines(run: Run, wanted: dict[str, int]) -> dict[str, set[int]]:
    """Kernel -> the lines it was attributed to, after checking them against the marks of the ops in its name."""
    found: dict[str, set[int]] = {}
    for row in range(len(run.work.start)):
        symbol = run.symbol(row)
        if not symbol.startswith(("cpp_", "triton_")):
            continue
        marked = {wanted[op] for op in take_apart(symbol).ops if op in wanted}
        if marked:
            assert marked <= run.lines(row), (symbol, run.lines(row), marked)
        found.setdefault(symbol, set()).update(run.lines(row))
    return found


def record(program: Path, folder: Path, *args: str, cache: Path | None = None, library: bool = False) -> Run:
    """Profile a program as the product does, and attribute what it recorded."""
    folder.mkdir(parents=True, exist_ok=True)
    spec = folder / "spec.json"
    request = {"run_dir": str(folder), "target": str(program), "args": list(args), "then": "continue", "steps": 3}
    request["user_roots"] = [str(program.parent)] if not library else None
    spec.write_text(json.dumps(request))
    env = {**os.environ, "INDUCTOR_PROVENANCE": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(LIBRARY)}
    if cache is not None:
        env["TORCHINDUCTOR_CACHE_DIR"] = str(cache)
    agent = Path(ridgeline.__file__).resolve().parent / "agent" / "main.py"
    done = subprocess.run(
        [sys.executable, str(agent), str(spec)],
        cwd=program.parent,
        env=env,
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return load(folder, program)


def load(folder: Path, program: Path) -> Run:
    sidecar = profile_io.read_sidecar(folder / "sidecar.json")
    assert sidecar.windows, (sidecar.notes, sidecar.errors)
    trace = read_trace(folder / sidecar.windows[0].trace)
    work = work_table(trace)
    attribution = attribute(trace, work, sidecar=sidecar, run_dir=folder)
    return Run(folder=folder, program=program, trace=trace, work=work, attribution=attribution)
