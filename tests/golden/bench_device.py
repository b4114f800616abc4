"""Benchmarks every kernel of captured programs on a device, beside Inductor's own harness and a recorded search.

    python tests/golden/bench_device.py CORPUS OUT --budget SECONDS

``CORPUS/WORKLOAD/generated.tar.gz`` holds the generated files of a program, ``autotune.jsonl`` beside it what an earlier search
found. Needs torch and Python alone (no installed Ridgeline, none of its dependencies). One line a kernel goes to
``OUT/bench.jsonl`` as soon as it is measured; a second call measures what is missing. Where the process dies on a kernel, that
kernel's line says so and the rest goes on. On a machine that starts bare, put the earlier ``bench.jsonl`` into OUT first.
``OUT/summary.txt`` compares. ``--no-verify`` leaves the search out, and begins with the longest kernels. Freeze ``bench.jsonl``,
packed with gzip, as ``search.jsonl.gz`` or ``times.jsonl.gz`` in ``tests/golden/data/bench_h200`` for ``test_bench_device.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT / "pyserver") not in sys.path:
    sys.path.insert(0, str(ROOT / "pyserver"))

from ridgeline.bench import document, plan  # noqa: E402
from ridgeline.inductor.module import is_wrapper  # noqa: E402

WORKLOADS = ("mlp_train", "encoder_train")
KERNEL_S, MODULE_S = 90.0, 120.0
"""Seconds that one file may take before it is given up."""
STEP_US = 0.032
"""Of the device's events: times of short kernels differ by a step of it."""
CLOSE, LONG_US = 0.02, 10.0
"""Ours and Inductor's own time differ by at most so much (a part) for kernels of at least so many microseconds."""


def tasks(corpus: Path, workloads: Iterable[str], parts: Iterable[str], *, verify: bool = True) -> list[dict[str, Any]]:
    """The files to measure, those with the largest recorded gain first: a short budget then shows the most.

    Without the search: the longest first.
    """
    found = []
    for workload in workloads:
        expected = _expected(corpus / workload / "autotune.jsonl")
        for name, text in _files(corpus / workload / "generated.tar.gz"):
            kind = "module" if is_wrapper(text) else "kernel"
            if f"{kind}s" not in parts or (kind == "kernel" and "def get_args(" not in text):
                continue
            found.append(
                {"id": f"{workload}/{name}", "workload": workload, "file": name, "kind": kind, "text": text,
                 "expected": expected.get(name), "verify": verify and kind == "kernel"}
            )  # fmt: skip
    first = _gain if verify else _length
    return sorted(found, key=lambda task: (task["kind"] == "module", -first(task["expected"])))


def _files(archive: Path) -> Iterator[tuple[str, str]]:
    with tarfile.open(archive) as opened:
        for member in opened:
            stream = opened.extractfile(member) if member.isfile() and member.name.endswith(".py") else None
            if stream is not None:
                yield Path(member.name).stem, stream.read().decode("utf-8", "replace")


def _expected(path: Path) -> dict[str, Any]:
    """File -> what an earlier search measured: milliseconds and spreads as compiled and with coordinate descent."""
    if not path.is_file():
        return {}
    rows = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    return {row["file"]: {mode: row[mode] for mode in ("default", "cd") if "ms" in row.get(mode, {})} for row in rows}


def _gain(expected: dict[str, Any] | None) -> float:
    if not expected or len(expected) < 2:
        return 0.0
    return float(expected["default"]["ms"] / expected["cd"]["ms"])


def _length(expected: dict[str, Any] | None) -> float:
    return float(expected["default"]["ms"]) if expected and "default" in expected else 0.0


def lines(out: Path) -> list[dict[str, Any]]:
    """What is measured so far; a last line that was cut off is left out."""
    path = out / "bench.jsonl"
    found = []
    for row in path.read_text().splitlines() if path.is_file() else []:
        try:
            found.append(json.loads(row))
        except ValueError:
            continue
    return found


def _append(out: Path, row: dict[str, Any]) -> None:
    with (out / "bench.jsonl").open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(row) + "\n")
        stream.flush()
        os.fsync(stream.fileno())


# ------------------------------------------------------------------------------------------ in the measuring process
def measure(task: dict[str, Any], folder: Path) -> dict[str, Any]:
    """One file, as ``ridgeline bench --autotune verify --format json`` does it, in this process."""
    session = _inside()
    verify = task["verify"]
    planned = plan.read(task["text"], f"{task['file']}.py")
    copy = folder / "generated.py"
    copy.write_text(planned.body if planned.file_kind == "kernel" or planned.inputs is not None else task["text"])
    seconds = KERNEL_S if verify else MODULE_S
    asked = document.request(planned, path=str(copy), caches=["warm", "cold"], timeout_s=seconds, verify=verify)
    question, answer = folder / "request.json", folder / "result.json"
    question.write_text(json.dumps(asked))
    start = time.perf_counter()
    session.run(str(question), str(answer))
    signal.alarm(0)
    result = json.loads(answer.read_text())
    written = document.build(planned, result, verify=verify)
    row = {key: task[key] for key in ("id", "workload", "file", "kind", "expected")}
    row.update({key: written[key] for key in ("torch", "python", "device", "kernels", "notes", "warnings")})
    return {**row, "error": result.get("message"), "took_s": round(time.perf_counter() - start, 1)}


def _inside() -> Any:
    """The part of the benchmark that runs in the user's interpreter, loaded by location as there."""
    if "_ridgeline_bench" not in sys.modules:
        import importlib.util

        folder = ROOT / "pyserver" / "ridgeline" / "bench" / "inside"
        spec = importlib.util.spec_from_file_location(
            "_ridgeline_bench", folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        assert spec is not None
        assert spec.loader is not None
        package = importlib.util.module_from_spec(spec)
        sys.modules["_ridgeline_bench"] = package
        spec.loader.exec_module(package)
    import importlib

    return importlib.import_module("_ridgeline_bench.session")


def child(task_file: Path, out: Path, deadline: float) -> int:
    """Measures task after task until the time is up; ``OUT/current`` names the one in work."""
    for task in json.loads(task_file.read_text()):
        if time.time() > deadline:
            return 0
        (out / "current").write_text(task["id"])
        with tempfile.TemporaryDirectory(prefix="ridgeline-bench-") as folder:
            try:
                row = measure(task, Path(folder))
            except Exception as error:  # noqa: BLE001 - one file's trouble is its line, and the rest goes on
                row = {"id": task["id"], "kernels": [], "error": f"{type(error).__name__}: {error}"}
        _append(out, row)
        (out / "current").unlink()
        print(_told(row), flush=True)
    return 0


def _told(row: dict[str, Any]) -> str:
    said = [f"{row['id'][:40]:40} {row.get('took_s', '?'):>5} s"]
    for kernel in row["kernels"][:1]:
        said.append(kernel["problem"] or _figures(kernel))
    return " ".join([*said, row["error"] or ""])


def _figures(kernel: dict[str, Any]) -> str:
    cold, tuned = kernel["cold"] or {}, kernel["autotune"] or {}
    parts = [f"cold {cold.get('median_us') or 0:.1f} us, min {cold.get('min_us') or 0:.1f}"]
    if kernel["inductor_us"]:
        parts.append(f"Inductor {kernel['inductor_us']:.1f}")
    return ", ".join([*parts, tuned.get("sentence", "")])


# ------------------------------------------------------------------------------------------ the parent
def run(
    corpus: Path,
    out: Path,
    *,
    budget: float,
    workloads: Iterable[str],
    parts: Iterable[str],
    caches: Path | None = None,
    verify: bool = True,
) -> int:
    """0 when every file has a line. Caches are in a new folder unless one is given: no earlier search decides this one."""
    out.mkdir(parents=True, exist_ok=True)
    deadline = time.time() + budget
    wanted = tasks(corpus, workloads, parts, verify=verify)
    with tempfile.TemporaryDirectory(prefix="ridgeline-device-") as folder:
        kept = caches or Path(folder)
        env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(kept), "TRITON_CACHE_DIR": str(kept / "triton")}
        while time.time() < deadline:
            done = {row["id"] for row in lines(out)}
            rest = [task for task in wanted if task["id"] not in done]
            if not rest:
                break
            (Path(folder) / "tasks.json").write_text(json.dumps(rest))
            command = [sys.executable, __file__, "--child", folder, str(out), "--until", str(deadline)]
            status = subprocess.run(command, env=env, check=False).returncode
            current = out / "current"
            if current.exists():  # the process died in the middle of a file: that one is not tried again
                _append(
                    out, {"id": current.read_text(), "kernels": [], "error": f"the process ended with status {status}"}
                )
                current.unlink()
            elif status:
                print(f"the measuring process ended with status {status}", file=sys.stderr)
                return status
    rows = lines(out)
    text = "\n".join([*summary(rows), f"{len(rows)} of {len(wanted)} files measured"])
    (out / "summary.txt").write_text(text + "\n")
    print(text)
    return 0 if len(rows) >= len(wanted) else 3


# ------------------------------------------------------------------------------------------ what the lines say
def against_inductor(rows: Iterable[dict[str, Any]]) -> list[tuple[str, float, float]]:
    """(kernel, our fastest cold sample, Inductor's fastest sample) in microseconds, of the same run."""
    return [
        (f"{row['id']} {kernel['name']}", kernel["cold"]["min_us"], kernel["inductor_us"])
        for row in rows
        for kernel in row["kernels"]
        if kernel["inductor_us"] and kernel["cold"] and kernel["cold"]["min_us"]
    ]


def against_search(rows: Iterable[dict[str, Any]]) -> list[tuple[str, dict[str, Any], float, float]]:
    """(kernel, our verdict, the gain that an earlier search measured, what that gain had to exceed)."""
    return [
        (f"{row['id']} {kernel['name']}", kernel["autotune"], _gain(row["expected"]), _margin(row["expected"]))
        for row in rows
        if row.get("expected") and len(row["expected"]) == 2
        for kernel in row["kernels"]
        if kernel["autotune"] and kernel["autotune"]["state"] in ("verified", "no_gain")
    ]


def _margin(expected: dict[str, Any]) -> float:
    return max(0.05, expected["default"]["spread"], expected["cd"]["spread"])


def summary(rows: list[dict[str, Any]]) -> list[str]:
    said = []
    apart = [(name, ours, theirs) for name, ours, theirs in against_inductor(rows)]
    long = [one for one in apart if one[2] >= LONG_US]
    if apart:
        close = [one for one in long if abs(one[1] / one[2] - 1) <= CLOSE]
        said.append(
            f"within {CLOSE:.0%} of Inductor's harness: {len(close)} of {len(long)} kernels of {LONG_US:g} us or more"
        )
        said += [
            f"  {name}: {ours:.2f} us against {theirs:.2f}"
            for name, ours, theirs in long
            if (name, ours, theirs) not in close
        ]
        short = [one for one in apart if one[2] < LONG_US]
        said.append(f"shorter ones: {len(short)}, ours no longer than theirs + {CLOSE:.0%} in "
                    f"{sum(ours <= theirs * (1 + CLOSE) for _, ours, theirs in short)}")  # fmt: skip
    searched = against_search(rows)
    if searched:
        said.append("gains: expected (coordinate descent, earlier), ours")
        for name, verdict, expected, margin in searched:
            if verdict["state"] == "verified" or expected - 1 > margin:
                said.append(
                    f"  {name}: {expected:.2f}, {verdict['speedup']:.2f} {verdict['state']} (spread {verdict['spread']:.1%})"
                )
    said += [f"failed: {row['id']}: {row['error']}" for row in rows if row["error"]]
    said += [
        f"failed: {row['id']} {kernel['name']}: {kernel['problem']}"
        for row in rows
        for kernel in row["kernels"]
        if kernel["problem"]
    ]
    return said


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("corpus", type=Path, nargs="?")
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--budget", type=float, default=480.0, help="seconds; the file in work is finished")
    parser.add_argument("--workloads", nargs="+", default=list(WORKLOADS))
    parser.add_argument("--parts", nargs="+", default=["kernels", "modules"], choices=["kernels", "modules"])
    parser.add_argument("--caches", type=Path, help="folder for compiled kernels (default: a new one)")
    parser.add_argument("--no-verify", action="store_true", help="times alone, without the search")
    parser.add_argument("--child", nargs=2, metavar=("FOLDER", "OUT"), help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.child:
        return child(Path(asked.child[0]) / "tasks.json", Path(asked.child[1]), asked.until)
    if asked.corpus is None or asked.out is None:
        parser.error("give CORPUS and OUT")
    return run(
        asked.corpus,
        asked.out,
        budget=asked.budget,
        workloads=asked.workloads,
        parts=asked.parts,
        caches=asked.caches,
        verify=not asked.no_verify,
    )


if __name__ == "__main__":
    raise SystemExit(main())
