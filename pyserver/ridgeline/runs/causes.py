"""Why a run left no profile, in a person's words: a code for buttons, one line, and what to do about it."""

from __future__ import annotations

import os
import re
import shutil
import signal
from dataclasses import asdict, dataclass
from pathlib import Path

from ridgeline.runs import processes
from ridgeline.runs.progress import Progress
from ridgeline.runs.spec import RunSpec

_CRASH = "crash.txt"
"""What ``agent/crash.py`` leaves in the run folder."""
_LITTLE_SPACE = 64 << 20
_SAID = 300
"""Characters of an exception's message that a cause repeats."""


@dataclass(frozen=True, slots=True)
class Cause:
    code: str
    """no-torch, wrong-interpreter, module-missing, script-failed, out-of-memory, disk-full, killed, nothing-recorded,
    start-failed, agent-failed, analysis-failed, cancelled, supervisor-lost."""
    message: str
    hint: str | None = None

    def as_dict(self) -> dict[str, str | None]:
        return asdict(self)

    def line(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


def has_torch(python: str, cwd: str, env: dict[str, str]) -> bool | None:
    """Whether this interpreter finds torch, without importing it; ``None`` when it does not run at all."""
    question = "import importlib.util as u; print(u.find_spec('torch') is not None)"
    answer = processes.probe([python, "-c", question], cwd=cwd, env=env)
    return None if answer is None else answer.strip() == "True"


_NO_EVENTS = "holds no events of torch.profiler"
"""What the analysis says of a trace of a program that ran, and in which no operation of torch did."""
_NOTHING_RECORDED = Cause(
    "nothing-recorded",
    "the program ended, and nothing was recorded",
    "did it run any torch operation in this process? For a server, use --after",
)


def of_program(
    spec: RunSpec,
    run_dir: Path,
    env: dict[str, str],
    *,
    returncode: int,
    last: Progress | None,
    errors: str,
) -> Cause:
    """Why the program left no recorded window. ``errors`` is the end of its standard error, where we saw it."""
    said = " ".join(part for part in (errors, last.message if last and last.message else "") if part)
    if "No space left on device" in said or shutil.disk_usage(run_dir).free < _LITTLE_SPACE:
        return Cause(
            "disk-full", f"no space left on the disk of {run_dir}", "free some, or choose another place with --run-dir"
        )
    torch = has_torch(spec.python, spec.cwd, env)
    if torch is None:
        return Cause("wrong-interpreter", f"{spec.python} does not run Python code", "choose another with --python")
    if not torch:
        return Cause(
            "no-torch",
            f"{spec.python} has no torch",
            f"choose another interpreter with --python, or run: {spec.python} -m pip install torch",
        )
    missing = re.search(r"No module named '?([\w.]+)'?", said)
    if missing and returncode != 0:
        return Cause("module-missing", f"{spec.python} has no module {missing[1]}", "install it there, or use --python")
    if "OutOfMemoryError" in said or "out of memory" in said:
        return Cause(
            "out-of-memory", "the device's memory did not suffice", "use a smaller batch, or fewer processes on it"
        )
    if returncode < 0:
        return _killed(returncode, run_dir)
    if last is not None and last.phase == "failed":
        return Cause(
            "agent-failed" if returncode == 125 else "script-failed",
            last.message or "the recording failed",
            _hint(last.message or "", run_dir),
        )
    raised = _raised(errors) if returncode > 0 else None
    if raised:
        return Cause(
            "script-failed", f"the program failed before anything was recorded: {raised}", "its output has the rest"
        )
    if returncode > 0:
        return Cause(
            "script-failed",
            f"the program ended with status {returncode} before anything was recorded",
            "its own message stands above",
        )
    return _NOTHING_RECORDED


def _hint(message: str, run_dir: Path) -> str:
    """What to do about what the agent said of a program that left no recording."""
    if "relative import with no known parent" in message:
        return (
            "it is part of a package: name it with -m, for example -m package.module, from the package's parent folder"
        )
    if "failed before" in message:
        return "its own output has the rest"
    if "ended with status" in message:
        return "its own message stands above"
    if "without importing torch" in message:
        return "only the program itself is recorded: of processes that it starts, profile the one that uses torch"
    return f"see log.txt in {run_dir}"


def _raised(errors: str) -> str | None:
    """The exception at the end of a traceback, as Python prints it; ``None`` where the program ended otherwise."""
    _, traceback, frames = errors.rpartition("Traceback (most recent call last):")
    lines = [line for line in frames.splitlines() if line.strip() and not line[0].isspace()]
    return lines[0][:_SAID] if traceback and lines and re.match(r"[\w.]+(:|$)", lines[0]) else None


def _killed(returncode: int, run_dir: Path) -> Cause:
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    if -returncode == signal.SIGKILL:
        return Cause("killed", "the program was killed (SIGKILL)", "often the kernel, out of memory: see dmesg")
    place = _crashed_at(run_dir / _CRASH)
    where = "" if place is None else f", in {place}"
    hint = None if place is None else f"{_CRASH} in the run folder has the frames of all threads"
    return Cause("killed", f"the program was ended by {name} before anything was recorded{where}", hint)


def _crashed_at(file: Path) -> str | None:
    """``file:line (function)`` of the innermost frame that the interpreter wrote down as it died."""
    try:
        text = file.read_text("utf-8", "replace")
    except OSError:
        return None
    frame = re.search(r'^(?:Current thread|Stack) .*\n +File "(.*)", line (\d+) in (.*)$', text, re.MULTILINE)
    return f"{frame[1]}:{frame[2]} ({frame[3]})" if frame else None


def of_analysis(returncode: int | None, output: str) -> Cause:
    """Why there is a trace but no profile; ``output`` is what the worker printed on standard error."""
    lines = [line for line in output.splitlines() if line.strip()]
    said = lines[-1].strip() if lines else f"it ended with status {returncode}"
    if _NO_EVENTS in said:
        return _NOTHING_RECORDED
    return Cause("analysis-failed", f"the analysis failed: {said}", "the trace is kept; log.txt has the whole message")


def cache_path_warning(env: dict[str, str]) -> str | None:
    """Inductor's C++ build breaks on a space in its cache folder: said before a person waits for it."""
    folder = env.get("TORCHINDUCTOR_CACHE_DIR") or env.get("TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
    if " " not in folder:
        return None
    name = "TORCHINDUCTOR_CACHE_DIR" if env.get("TORCHINDUCTOR_CACHE_DIR") else "TMPDIR"
    return f"{name} has a space in it ({folder!r}); Inductor's C++ build fails there: set TORCHINDUCTOR_CACHE_DIR to a path without one"
