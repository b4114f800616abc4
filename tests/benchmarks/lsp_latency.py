"""Latency of the language server over a stored run of 10,000 kernels, as a client sees it.

    python tests/benchmarks/lsp_latency.py [--kernels 10000] [--json FILE]

The run is made here: 1,000 hot lines in one user file, a generated module of 10,000 launches, a million launches in all.
Each figure is a round trip over standard input and output, reading and decoding included, except ``edit``, which is a
notification and therefore measured inside the server's own classes. ``first lens`` is from ``didOpen`` to the lenses in a
server that has just been initialized; ``without index`` the same when the index has to be built first (in a child).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lsp"))

from lsprotocol import types

from lsp_builder import kernel_row, line_row, publish, sha
from ridgeline.lsp.anchors import Anchors
from ridgeline.lsp.documents import Document
from ridgeline.profile import CallLine, Device, File, GeneratedRef, ProfileDocument, Source, SourceRef, Totals
from ridgeline.runs.folder import RunFolder
from ridgeline.runs.store import group_name

HOT_LINES = 1000
LAUNCHES_OF_KERNEL = 100


def make_run(root: Path, kernels: int) -> tuple[Path, Path, RunFolder]:
    """A model of some ten thousand lines, its generated module, and the run."""
    workspace = root / "ws"
    workspace.mkdir()
    model, module = workspace / "model.py", root / "cmodule.py"
    model.write_text(
        "\n".join(f"    x{i} = layer_{i}(x{i - 1})" for i in range(HOT_LINES * 10)) + "\n", encoding="utf-8"
    )
    calls = [f"    triton_poi_fused_add_{i}.run(buf{i}, 1024, stream=stream0)" for i in range(kernels)]
    module.write_text("def call(args):\n" + "\n".join(calls) + "\n", encoding="utf-8")
    rows, by_line = [], dict[int, list[str]]()
    for i in range(kernels):
        line = 10 * (i % HOT_LINES) + 1
        by_line.setdefault(line, []).append(f"k{i:05d}")
        rows.append(
            kernel_row(
                f"k{i:05d}",
                f"triton_poi_fused_add_{i}",
                100.0 * (kernels - i),
                count=LAUNCHES_OF_KERNEL,
                step_share_pct=90.0 * 2 * (kernels - i) / kernels**2,
                share_pct=100.0 * 2 * (kernels - i) / kernels**2,
                bound="memory" if i % 3 else "compute",
                bound_reason="reads and writes 1.07 GB a launch at 84 % of the measured bandwidth",
                generated=[
                    GeneratedRef(
                        file=str(module), call_lines=[CallLine(line=i + 2, time_us=100.0 * (kernels - i), count=100)]
                    )
                ],
                source=[
                    SourceRef(file=str(model), line=line, function="forward", text=f"x = layer({i})", confidence=1.0)
                ],
            )
        )
    total = sum(row.total_us for row in rows)
    lines = []
    for line, ids in by_line.items():
        time_us = sum(rows[int(identity[1:])].total_us for identity in ids)
        lines.append(
            line_row(str(model), line, f"x = layer_{line - 1}", time_us, time_us, 90.0 * time_us / total, ids, [])
        )
    document = ProfileDocument(
        source=Source(kind="run", path=str(model), created="2026-11-29T10:00:00+00:00", torch="2.13.0", steps=10),
        totals=Totals(wall_us=total / 0.9, profiled_step_us=total / 9.0),
        files=[
            File(path=str(model), sha256=sha(model.read_text(encoding="utf-8")), snapshot="files/model.py"),
            File(
                path=str(module),
                sha256=sha(module.read_text(encoding="utf-8")),
                snapshot="files/module.py",
                kind="generated",
            ),
        ],
        devices=[Device(id=0, name="NVIDIA H200", kind="cuda")],
        kernels=rows,
        lines=lines,
    )
    folder = RunFolder(root / "runs" / group_name(str(model), False, str(workspace)) / "20261129-000000")
    (folder.path / "files").mkdir(parents=True)
    shutil.copy(model, folder.path / "files" / "model.py")
    shutil.copy(module, folder.path / "files" / "module.py")
    folder.update(
        target=str(model), module=False, created=time.time(), state="finished", files=[str(model), str(module)]
    )
    publish(document, folder)
    return model, module, folder


class Client:
    """The least client: frames, ids, and waiting for one answer. Notifications and requests of the server are put aside."""

    def __init__(self, store: Path, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ridgeline.lsp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "RIDGELINE_RUN_DIR": str(store)},
        )
        self.next = 0
        text = {"codeLens": {}, "hover": {}, "publishDiagnostics": {}, "inlayHint": {}}
        # No threshold: so many equal lines have less than a percent each, and the cap of 200 lenses is what costs.
        options = {"settings": {"annotations": {"minimumPercent": 0}}}
        asked = {"processId": None, "rootUri": folder.as_uri(), "capabilities": {"textDocument": text}}
        self.request("initialize", {**asked, "initializationOptions": options})
        self.notify("initialized", {})

    def send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def notify(self, method: str, params: Any) -> None:
        self.send({"method": method, "params": params})

    def request(self, method: str, params: Any) -> Any:
        self.next += 1
        self.send({"id": self.next, "method": method, "params": params})
        while True:
            message = self.receive()
            if message.get("id") == self.next and "method" not in message:
                assert "error" not in message, message
                return message["result"]

    def receive(self) -> Any:
        assert self.process.stdout is not None
        length = 0
        while (header := self.process.stdout.readline()) != b"\r\n":
            assert header, "the server is gone"
            if header.lower().startswith(b"content-length:"):
                length = int(header.split(b":")[1])
        return json.loads(self.process.stdout.read(length))

    def open(self, path: Path) -> str:
        item = {"uri": path.as_uri(), "languageId": "python", "version": 1, "text": path.read_text(encoding="utf-8")}
        self.notify("textDocument/didOpen", {"textDocument": item})
        return path.as_uri()

    def lenses(self, uri: str) -> Any:
        return self.request("textDocument/codeLens", {"textDocument": {"uri": uri}})

    def cpu_ms(self) -> float:
        """Processor time of all threads so far, to the nanosecond."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text(encoding="utf-8").split()[0]) for task in tasks) / 1e6

    def memory_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))) / 1024

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(10)


def timed(work: Callable[[], Any], repeats: int, client: Client | None = None) -> dict[str, float]:
    """Milliseconds. ``cpu``: mean processor time of the server's process, which the machine's load does not stretch."""
    spent = []
    before = client.cpu_ms() if client else 0.0
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        spent.append(1e3 * (time.perf_counter() - started))
    spent.sort()
    cpu = {"cpu": (client.cpu_ms() - before) / repeats} if client else {}
    return cpu | {
        "p50": statistics.median(spent),
        "p95": spent[min(len(spent) - 1, round(0.95 * len(spent)))],
        "max": spent[-1],
    }


def first_lens(store: Path, model: Path, *, repeats: int, drop_index: Path | None = None) -> dict[str, float]:
    spent, cpu = [], []
    for _ in range(repeats):
        if drop_index is not None:
            shutil.rmtree(drop_index, ignore_errors=True)
        client = Client(store, model.parent)
        before, started = client.cpu_ms(), time.perf_counter()
        uri = client.open(model)
        while not client.lenses(uri):
            assert drop_index is not None, "no lenses although there is an index"
            time.sleep(0.01)
        spent.append(1e3 * (time.perf_counter() - started))
        cpu.append(client.cpu_ms() - before)
        client.close()
    return {"cpu": statistics.mean(cpu), "p50": statistics.median(spent), "p95": max(spent), "max": max(spent)}


def edits(model: Path, module_lines: int) -> dict[str, float]:
    """One didChange in a document of ``module_lines`` lines with an anchor on each: the text and all anchors."""
    lines = [f"    x{i} = f({i})" for i in range(module_lines)]
    document = Document(model.as_uri(), 1, "python", list(lines))
    anchors = Anchors(lines, [(i, i) for i in range(module_lines)])
    chance = random.Random(1)

    def one() -> None:
        line = chance.randrange(len(document.lines))
        at = types.Position(line, 2)
        text = chance.choice(["x", "\n    new()\n", "yz", "\n"])
        edit = document.apply(types.TextDocumentContentChangePartial(range=types.Range(at, at), text=text))
        anchors.apply(edit, document.lines)

    return timed(one, 1000)


def measure(kernels: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        model, module, folder = make_run(root, kernels)
        store = root / "runs"
        client = Client(store, model.parent)
        uri = client.open(model)
        generated = client.open(module)
        lens_count = len(client.lenses(uri))
        where = [{"textDocument": {"uri": uri}, "position": {"line": 10 * i, "character": 6}} for i in range(100)]
        turn = iter(where * 10)
        window = {"start": {"line": 0, "character": 0}, "end": {"line": 80, "character": 0}}
        result = {
            "document_mb": round(folder.profile.stat().st_size / 1e6, 1),
            "lenses": lens_count,
            "first lens, stored run": first_lens(store, model, repeats=7),
            "hover": timed(lambda: client.request("textDocument/hover", next(turn)), 200, client),
            "codeLens, user file": timed(lambda: client.lenses(uri), 50, client),
            "codeLens, generated module": timed(lambda: client.lenses(generated), 50, client),
            "inlayHint, 80 lines": timed(
                lambda: client.request("textDocument/inlayHint", {"textDocument": {"uri": uri}, "range": window}),
                100,
                client,
            ),
            "workspace/symbol": timed(lambda: client.request("workspace/symbol", {"query": "add_1"}), 50, client),
            "hotKernels": timed(lambda: client.request("ridgeline/hotKernels", {"uri": uri, "limit": 200}), 50, client),
            "edit, 10,000 anchors": edits(model, 10_000),
            "memory_mb": round(client.memory_mb(), 1),
        }
        client.close()
        result["first lens, without index"] = first_lens(store, model, repeats=3, drop_index=folder.path / "index")
    return result


GOALS = {"first lens, stored run": 300.0, "hover": 5.0, "codeLens, user file": 15.0, "edit, 10,000 anchors": 1.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=int, default=10_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    result = measure(options.kernels)
    print(
        f"{options.kernels} kernels, document of {result['document_mb']} MB, {result['lenses']} lenses in the user's file"
    )
    for name, value in result.items():
        if isinstance(value, dict):
            goal = f"   goal p95 {GOALS[name]:g}" if name in GOALS else ""
            cpu = f"  server's CPU {value['cpu']:6.2f} ms" if "cpu" in value else ""
            print(f"{name:28} p50 {value['p50']:8.2f} ms  p95 {value['p95']:8.2f} ms{cpu}{goal}")
    print(f"memory of the server         {result['memory_mb']} MB (goal 120)")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
