"""``ridgeline bench``: one generated kernel file, or every kernel of a generated module."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from ridgeline.bench import document, plan
from ridgeline.cli_common import (
    FAILED,
    INTERRUPTED,
    CommandError,
    check_format,
    environment,
    interpreter,
    say,
    text_console,
    write_json,
)
from ridgeline.inductor.files import MAX_FILE_BYTES
from ridgeline.runs import processes

CACHE_FOLDERS = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


def run(
    file: Path,
    *,
    autotune: str,
    cold: bool | None,
    timeout: float,
    kernel: str | None,
    size: list[str],
    exposed_share: float | None,
    python: str | None,
    cwd: Path | None,
    env: list[str],
    format: str,
    output: Path | None,
) -> int:
    """The exit status: 0 with something measured, 1 with nothing. Raises :class:`CommandError`."""
    check_format(format)
    if autotune not in ("off", "verify"):
        raise CommandError(f"--autotune {autotune}: choose off or verify")
    text = _text(file)
    try:
        planned = plan.read(text, str(file.absolute()), _sizes(size))
    except plan.PlanError as error:
        raise CommandError(str(error)) from error
    if kernel is not None and all(k.name != kernel for k in planned.kernels):
        raise CommandError(f"{file} defines no kernel {kernel}")
    verify = autotune == "verify"
    caches = ["warm", "cold"] if cold is None else ["cold"] if cold else ["warm"]
    with tempfile.TemporaryDirectory(prefix="ridgeline-bench-", dir=_plain_folder()) as folder:
        copy = os.path.join(folder, "generated.py")
        # The harness is left out where its inputs were read: it is not needed, and may be what keeps the file from loading.
        whole = planned.file_kind == "module" and planned.inputs is None
        Path(copy).write_text(text if whole else planned.body, encoding="utf-8")
        asked = document.request(
            planned, text=text, path=copy, caches=caches, timeout_s=timeout, verify=verify, only=kernel
        )
        status, result = _measured(
            asked, interpreter(python), folder, cwd=cwd, env=_environment(environment(env), folder, private=verify)
        )
    if status == INTERRUPTED:
        raise CommandError("interrupted", INTERRUPTED)
    written = document.build(planned, result, verify=verify, exposed_share=exposed_share, only=kernel)
    if format == "json":
        write_json(json.dumps(written, allow_nan=False).encode(), output)
    else:
        from ridgeline.bench.text import show

        with text_console(output) as console:
            show(written, console)
    problems = [k["problem"] for k in written["kernels"]]
    if problems and None not in problems:
        say(f"nothing could be measured: {problems[0]}")
        return 1
    return 0


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise CommandError(f"{file} is too large for a generated file")
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise CommandError(f"cannot read {file}: {error.strerror or error}") from error


def _sizes(pairs: list[str]) -> dict[str, int]:
    sizes = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if not name or not value.isdigit():
            raise CommandError(f"--size {pair}: write NAME=NUMBER, as in u0=4096")
        sizes[name] = int(value)
    return sizes


def _plain_folder() -> str | None:
    """None for the system's temporary folder; another where its name would break Inductor's C++ compilation."""
    return None if _harmless(tempfile.gettempdir()) else "/tmp"


def _harmless(path: str) -> bool:
    """Inductor splits its compiler's command line at spaces and loses backslashes."""
    return not any(character in path for character in " \t\\\"'")


def _environment(asked: dict[str, str], folder: str, *, private: bool) -> dict[str, str]:
    """The user's caches as they are for a plain benchmark (nothing new is compiled there that the module would not
    compile itself); folders of our own for a search, and where the name of theirs would break the compilation."""
    env = {**os.environ, **asked}
    for name in CACHE_FOLDERS:
        if private or not _harmless(env.get(name, "")):
            env[name] = os.path.join(folder, name.lower())
    return env


def _measured(
    asked: dict[str, Any], python: str, folder: str, *, cwd: Path | None, env: dict[str, str]
) -> tuple[int, dict[str, Any]]:
    """The status and the result of the user's interpreter. Raises :class:`CommandError`."""
    script = Path(__file__).resolve().parent / "bench" / "inside" / "main.py"
    question, answer = Path(folder) / "request.json", Path(folder) / "result.json"
    question.write_text(json.dumps(asked), encoding="utf-8")
    try:
        status = processes.run_to_end(
            [python, str(script), str(question), str(answer)], cwd=str(cwd or Path.cwd()), env=env
        )
    except processes.StartError as error:
        raise CommandError(str(error)) from error
    try:
        result = json.loads(answer.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CommandError(f"the benchmark ended with status {status} and no result", FAILED) from error
    assert isinstance(result, dict)
    if result.get("error") == "no-torch":
        raise CommandError(f"{python} has no torch ({result['message']}); choose another interpreter with --python")
    if "error" in result:
        raise CommandError(str(result["message"]), 1)
    if status not in (0, INTERRUPTED):
        result.setdefault("notes", []).append(
            f"the benchmark ended early, with status {status}: what it measured until then"
        )
    return status, result
