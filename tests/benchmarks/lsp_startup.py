"""How long the language server takes from spawn to the answer to ``initialize``, beside importing pygls alone.

    python tests/benchmarks/lsp_startup.py [--runs 15] [--json FILE]

Both are whole processes started by the same parent, in turns, so that noise of the machine falls on both. ``pygls`` is
``python -c "from pygls.lsp.server import LanguageServer"``. ``server`` is ``python -m ridgeline.lsp``, from spawn until the
response to ``initialize`` is read. ``bare pygls server`` is the least server that pygls can be: no feature at all, until the
same response; the difference to ``server`` is ours. Also: what the server's process has imported, and its resident memory.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

IMPORT = "from pygls.lsp.server import LanguageServer"
BARE = f"{IMPORT}; LanguageServer('bare', '1').start_io()"
FORBIDDEN = ("torch", "numpy", "pandas", "msgspec", "typer", "rich")


def frame(message: dict[str, Any]) -> bytes:
    body = json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def read_message(stream: Any) -> dict[str, Any]:
    length = 0
    while (header := stream.readline()) not in (b"\r\n", b""):
        if header.lower().startswith(b"content-length:"):
            length = int(header.split(b":")[1])
    body: dict[str, Any] = json.loads(stream.read(length))
    return body


def initialize(folder: str) -> dict[str, Any]:
    capabilities = {"textDocument": {"codeLens": {}, "hover": {}}, "workspace": {"codeLens": {"refreshSupport": True}}}
    params = {"processId": os.getpid(), "rootUri": Path(folder).as_uri(), "capabilities": capabilities}
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}


def time_import() -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", IMPORT], check=True)
    return time.perf_counter() - started


def time_server(command: list[str], folder: str, *, memory: list[int] | None = None) -> float:
    env = {**os.environ, "RIDGELINE_RUN_DIR": folder}
    started = time.perf_counter()
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env
    )
    assert process.stdin is not None
    process.stdin.write(frame(initialize(folder)))
    process.stdin.flush()
    answer = read_message(process.stdout)
    elapsed = time.perf_counter() - started
    assert "capabilities" in answer["result"], answer
    if memory is not None:
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
        memory.append(int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))))
    process.stdin.close()
    process.wait(10)
    return elapsed


def imported() -> list[str]:
    """Top-level packages of a server with all its features."""
    code = (
        "import json, sys; from ridgeline.lsp.main import create_server; create_server(); "
        "import ridgeline.lsp.profiling; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    names: list[str] = json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
    return names


def spread(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    p95 = ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]
    return {"min": ordered[0], "p50": statistics.median(ordered), "p95": p95}


def measure(runs: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        server = [sys.executable, "-m", "ridgeline.lsp"]
        bare = [sys.executable, "-c", BARE]
        time_import(), time_server(server, folder), time_server(bare, folder)  # Byte code and page cache.
        pygls, ours, least, memory = [], [], [], list[int]()
        for _ in range(runs):
            pygls.append(time_import())
            ours.append(time_server(server, folder, memory=memory))
            least.append(time_server(bare, folder))
    names = imported()
    return {
        "pygls_import_s": spread(pygls),
        "server_initialize_s": spread(ours),
        "bare_pygls_initialize_s": spread(least),
        "ratio_to_import": statistics.median(ours) / statistics.median(pygls),
        "rss_mb": round(max(memory) / 1024, 1),
        "forbidden_imports": [name for name in FORBIDDEN if name in names],
        "runs": runs,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    result = measure(options.runs)
    for name in ("pygls_import_s", "bare_pygls_initialize_s", "server_initialize_s"):
        row = result[name]
        print(f"{name:26} min {row['min']:.3f}  p50 {row['p50']:.3f}  p95 {row['p95']:.3f}")
    print(f"server / pygls import      {result['ratio_to_import']:.2f} (goal 1.5)")
    print(
        f"resident memory            {result['rss_mb']} MB; forbidden imports: {result['forbidden_imports'] or 'none'}"
    )
    if options.json:
        options.json.write_text(json.dumps(result, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
