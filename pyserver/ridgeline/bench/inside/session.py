"""One benchmark: reads the request, measures what can be measured, and writes the result after every kernel.

A result that is cut short (time, an interrupt, a crash of a kernel) holds what was measured until then.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

GRACE_S = 60
"""After the time that was given the system ends this process, whatever native code it is in."""
BUSY_PERCENT = 5
INTERRUPTED = 130


def run(request_path: str, result_path: str) -> int:
    with open(request_path, encoding="utf-8") as file:
        request = json.load(file)
    session = Session(request, result_path)
    try:
        session.measure()
    except KeyboardInterrupt:
        session.result["interrupted"] = True
        session.save()
        return INTERRUPTED
    session.save()
    return 1 if "error" in session.result else 0


class Session:
    """What is measured and what is said about it."""

    def __init__(self, request: dict[str, Any], result_path: str) -> None:
        self.request = request
        self.path = result_path
        self.deadline = time.monotonic() + request["timeout_s"]
        self.result: dict[str, Any] = {"kernels": {}, "notes": [], "warnings": []}

    def begin(self, name: str) -> None:
        """The kernel that is at work from now on: where the process dies, it died in that one."""
        self.result["at"] = name
        self.save()

    def save(self) -> None:
        with open(self.path + ".new", "w", encoding="utf-8") as out:
            json.dump(self.result, out)
        os.replace(self.path + ".new", self.path)

    def fail(self, code: str, message: str) -> None:
        self.result.update(error=code, message=message)

    def note(self, text: str) -> None:
        if text not in self.result["notes"]:
            self.result["notes"].append(text)

    @property
    def late(self) -> bool:
        return bool(time.monotonic() > self.deadline)

    def measure(self) -> None:
        if hasattr(signal, "alarm"):
            signal.alarm(int(self.request["timeout_s"]) + GRACE_S)
        warning = others_on_gpu() if self.request["cuda"] else others_on_cpu()
        if warning:
            self.result["warnings"].append(warning)
        try:
            import torch
        except ImportError as error:
            return self.fail("no-torch", str(error))
        self.result.update(torch=torch.__version__, python=sys.version.split()[0])
        if self.request["cuda"] and not torch.cuda.is_available():
            return self.fail("no-device", "the file is for a CUDA device, and torch finds none here")
        self.result["device"] = (
            torch.cuda.get_device_name() if self.request["cuda"] else f"cpu, {torch.get_num_threads()} threads"
        )
        if os.environ.get("TRITON_INTERPRET") == "1":
            self.result["warnings"].append(
                "TRITON_INTERPRET is set: Triton kernels run in its interpreter, far from any device"
            )
        from .kernels import Measuring

        with torch.no_grad():
            measuring = Measuring(torch, self)
            measuring.run()
        late = getattr(measuring.clock, "late", 0)
        if late:
            self.result["warnings"].append(
                f"the host was too slow to keep the device fed {late} times: those samples were taken again"
            )
        return None


def others_on_cpu() -> str | None:
    """A line where other processes take more than half of the cores (load of the last minute)."""
    try:
        load, cores = os.getloadavg()[0], os.cpu_count() or 1
    except OSError:
        return None
    if load <= 0.5 * cores:
        return None
    return f"other processes are at work here (load {load:.1f} on {cores} cores): times may be too long and scatter"


SETTLED_S = 1.2
"""The driver's figure is of the last second or less: what ended before that is gone from it by then."""


def others_on_gpu() -> str | None:
    """A line where the device is in use before anything of ours runs on it; None where nobody can tell."""
    # Our own share of the device is nothing yet: whatever is busy now, and still is a moment later, is somebody else's.
    used = _used_percent()
    if used is not None and used >= BUSY_PERCENT:
        time.sleep(SETTLED_S)
        used = _used_percent()
    if used is None or used < BUSY_PERCENT:
        return None
    return f"another process uses the device ({used} % busy before the benchmark): times may be too long and scatter"


def _used_percent() -> int | None:
    import subprocess

    index = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0] or "0"
    command = ["nvidia-smi", "-i", index, "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return None
    return int(said) if said.isdigit() else None
