"""Measured peaks, kept for every later run on the same device: keyed by device, driver, power limit and MIG slice.

The measuring itself runs ``measure.py`` in the user's interpreter, after the program has ended, at most a few seconds.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import platformdirs

from ridgeline.profile_io import write_atomically
from ridgeline.roofline import measure

TIMEOUT_S = 60.0
"""For the import of torch on a slow disk; the measuring stops itself after five seconds."""
BUDGET_S = 5.0
_RUN = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
"""As a plain script its folder would be searched first, and modules of ours found in place of the standard library's."""


def key_of(identity: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def folder() -> Path:
    return Path(platformdirs.user_cache_dir("ridgeline")) / "peaks"


def peaks_for(
    device: str, *, python: str, cwd: str, threads: int | None = None, may_measure: bool
) -> tuple[dict[str, Any] | None, str | None]:
    """The peaks of ``device`` (``cuda:0`` or ``cpu``) from the cache, else measured there; (None, why) where neither works.

    ``may_measure`` says that the program has ended, so that the device is as idle as it gets.
    """
    identity = measure.identity(device, threads)
    cached = folder() / f"{key_of(identity)}.json"
    try:
        found = json.loads(cached.read_text(encoding="utf-8"))
        if isinstance(found, dict):
            return found, None
    except (OSError, ValueError):
        found = None  # never measured on this device, or damaged: measure again
    if not may_measure:
        return None, None
    command = [
        python,
        "-c",
        _RUN,
        str(Path(measure.__file__).resolve()),
        "--device",
        device,
        "--seconds",
        str(BUDGET_S),
    ]
    command += ["--threads", str(threads)] if threads else []
    try:
        done = subprocess.run(
            command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
        )
        found = json.loads(done.stdout)
    except subprocess.CalledProcessError as error:
        last = (error.stderr or "").strip().splitlines()
        return None, f"the peaks of {device} could not be measured: {last[-1] if last else error}"
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return None, f"the peaks of {device} could not be measured: {error}"
    if found.get("skipped"):
        return None, str(found["skipped"])
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(cached, json.dumps(found).encode())
    except OSError as error:
        return found, f"the measured peaks could not be kept: {error}"
    return found, None
