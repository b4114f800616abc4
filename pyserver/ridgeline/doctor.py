"""What will work here and what will not, each with its mend. The questions to the user's interpreter are asked in it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ridgeline.runs import causes, processes
from ridgeline.runs.store import default_root

Status = Literal["ok", "warning", "error", "absent"]
"""``absent``: not here, and nothing is wrong with that (no GPU in a laptop)."""

_LITTLE_DISK = 2 << 30
"""A window's trace and snapshots take a few hundred megabytes at most; Inductor's cache grows to gigabytes."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report."""

    name: str
    status: Status
    found: str
    mend: str | None = None


def examine(python: str, *, cwd: str, env: dict[str, str], run_root: Path | None = None) -> list[Check]:
    """All checks, in the order in which they matter. Starts ``python`` once; takes as long as importing torch does."""
    checks = [_platform(), _own_python()]
    script = Path(__file__).resolve().parent / "runs" / "doctor_agent.py"
    answer = processes.probe([python, str(script)], cwd=cwd, env=env, seconds=120)
    facts = _parsed(answer)
    if facts is None:
        checks.append(
            Check("interpreter", "error", f"{python} does not run", "choose the program's interpreter with --python")
        )
        facts = {}
    else:
        checks.append(_interpreter(facts))
        checks += [check(facts) for check in _QUESTIONS]
    checks.append(_compiler(env))
    if facts:
        checks.append(_headers(facts))
    checks += [_cache(env, facts), _runs(run_root or default_root())]
    return checks


def _parsed(answer: str | None) -> dict[str, Any] | None:
    if answer is None:
        return None
    try:
        facts = json.loads(answer.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return None
    return facts if isinstance(facts, dict) else None


def _platform() -> Check:
    refused = processes.unsupported()
    if refused is not None:
        return Check("system", "error", refused, "profile on a Linux machine, then analyze the run folder here")
    return Check("system", "ok", f"Linux {os.uname().release}, {os.cpu_count()} logical cores")


def _own_python() -> Check:
    return Check("Ridgeline runs on", "ok", f"Python {sys.version.split()[0]} ({sys.executable})")


def _interpreter(facts: dict[str, Any]) -> Check:
    found = f"Python {facts['python']} ({facts['executable']})"
    if tuple(facts["version"]) < (3, 10):
        return Check("interpreter", "error", found, "the agent needs Python 3.10 or newer")
    return Check("interpreter", "ok", found)


def _torch(facts: dict[str, Any]) -> Check:
    if facts.get("torch") is None:
        reason = facts.get("torch_error") or "not installed"
        return Check("torch", "error", reason, f"{facts['executable']} -m pip install torch, or another --python")
    if tuple(facts["torch_version"]) < (2, 9):
        return Check("torch", "warning", facts["torch"], "tested with 2.9 and newer; older ones may lack hooks")
    return Check("torch", "ok", facts["torch"])


def _cuda(facts: dict[str, Any]) -> Check:
    if facts.get("torch") is None:
        return Check("GPU", "absent", "not asked, without torch")
    devices = facts.get("devices") or []
    if devices:
        return Check("GPU", "ok", ", ".join(devices))
    if facts.get("torch_cuda") is None:
        seen = Path("/dev/nvidiactl").exists()
        found = "this torch is built without CUDA" + (
            ", though there is an NVIDIA device" if seen else "; profiling on the CPU"
        )
        return Check("GPU", "warning" if seen else "absent", found, "install a CUDA build of torch" if seen else None)
    reason = facts.get("cuda_error") or "torch sees no device"
    return Check(
        "GPU",
        "warning",
        f"torch {facts['torch_cuda']} for CUDA, but {reason}",
        "nvidia-smi should list it; check the driver and CUDA_VISIBLE_DEVICES",
    )


def _cupti(facts: dict[str, Any]) -> Check:
    if not facts.get("devices"):
        return Check("CUPTI", "absent", "no GPU")
    if not facts.get("cupti"):
        return Check(
            "CUPTI",
            "error",
            "a profiled kernel left no event: " + (facts.get("cupti_error") or "CUPTI recorded nothing"),
            "another profiler may hold the device (nsys, ncu, dcgm); in a container, mount the driver's libcupti and allow it",
        )
    return Check("CUPTI", "ok", "kernels are recorded")


def _counters(facts: dict[str, Any]) -> Check:
    if not facts.get("devices"):
        return Check("counters", "absent", "no GPU")
    try:
        text = Path("/proc/driver/nvidia/params").read_text(encoding="utf-8")
    except OSError:
        return Check("counters", "absent", "the driver does not say who may read hardware counters")
    if "RmProfilingAdminOnly: 1" in text and os.geteuid() != 0:
        return Check(
            "counters",
            "warning",
            "hardware counters are for administrators only (ncu will be refused; traces work)",
            "modprobe option NVreg_RestrictProfilingToAdminUsers=0, or run as root or with CAP_SYS_ADMIN",
        )
    return Check("counters", "ok", "hardware counters are allowed")


def _triton(facts: dict[str, Any]) -> Check:
    if facts.get("triton"):
        return Check("Triton", "ok", str(facts["triton"]))
    if facts.get("devices"):
        return Check(
            "Triton",
            "error",
            facts.get("triton_error") or "not installed",
            "pip install triton; torch.compile needs it on a GPU",
        )
    return Check("Triton", "absent", "not installed; needed on a GPU only")


_QUESTIONS: tuple[Callable[[dict[str, Any]], Check], ...] = (_torch, _cuda, _cupti, _counters, _triton)


def _compiler(env: dict[str, str]) -> Check:
    named = env.get("CXX")
    path = shutil.which(named or "g++", path=env.get("PATH")) or (
        None if named else shutil.which("clang++", path=env.get("PATH"))
    )
    if path is None:
        wanted = f"CXX={named} is not there" if named else "no g++ or clang++ in PATH"
        return Check(
            "C++ compiler",
            "warning",
            f"{wanted}; torch.compile on the CPU will fail",
            "install g++ (Debian: apt-get install g++)",
        )
    answer = processes.probe([path, "--version"], env=env)
    return Check("C++ compiler", "ok", answer.splitlines()[0] if answer else path)


def _headers(facts: dict[str, Any]) -> Check:
    header = Path(facts.get("include") or "") / "Python.h"
    if header.is_file():
        return Check("Python headers", "ok", str(header.parent))
    major, minor = facts["version"][:2]
    return Check(
        "Python headers",
        "warning",
        f"no {header}; Inductor's C++ kernels and Triton's launcher will not compile",
        f"install them (Debian: apt-get install python{major}.{minor}-dev)",
    )


def _cache(env: dict[str, str], facts: dict[str, Any]) -> Check:
    folder = env.get("TORCHINDUCTOR_CACHE_DIR") or facts.get("inductor_cache")
    if not folder:
        return Check("compile cache", "absent", "torch's default")
    warning = causes.cache_path_warning({**env, "TORCHINDUCTOR_CACHE_DIR": folder})
    if warning:
        return Check(
            "compile cache",
            "error",
            folder,
            "a space in the path breaks Inductor's C++ build: set TORCHINDUCTOR_CACHE_DIR",
        )
    return _room("compile cache", Path(folder), "set TORCHINDUCTOR_CACHE_DIR to another disk")


def _runs(root: Path) -> Check:
    return _room("runs", root, "choose another place with --run-dir or RIDGELINE_RUN_DIR")


def _room(name: str, folder: Path, mend: str) -> Check:
    """Whether the folder, or the nearest one above it that exists, can be written and has room."""
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        return Check(name, "error", f"{folder} cannot be written", mend)
    free = shutil.disk_usage(place).free
    found = f"{folder}, {free / 1e9:.1f} GB free"
    return Check(
        name, "ok" if free > _LITTLE_DISK else "warning", found, None if free > _LITTLE_DISK else f"little room: {mend}"
    )
