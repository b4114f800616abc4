"""``ridgeline bench``: one generated kernel file, or every kernel of a generated module."""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ridgeline.bench import callers, document, launches, plan, workbench
from ridgeline.cli_common import (
    FAILED,
    INTERRUPTED,
    CommandError,
    check_format,
    environment,
    interpreter,
    named_sizes,
    say,
    text_console,
    write_json,
)
from ridgeline.inductor.files import MAX_FILE_BYTES
from ridgeline.runs import compile_folders, processes

RUNS_SEARCHED = 20
CACHE_FOLDERS = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


@dataclass(slots=True, kw_only=True)
class Request:
    """The options of the command, as typed."""

    file: Path
    autotune: str = "off"
    cold: bool | None = None
    timeout: float = 300.0
    kernel: str | None = None
    size: list[str] = field(default_factory=list)
    exposed_share: float | None = None
    against: Path | None = None
    copy: Path | None = None
    run: str | None = None
    rtol: float | None = None
    atol: float | None = None
    python: str | None = None
    cwd: Path | None = None
    env: list[str] = field(default_factory=list)
    format: str = "text"
    output: Path | None = None


def run(asked: Request) -> int:
    """The exit status: 0 with something measured, 1 with nothing, where the outputs of an edited copy differ, or where the
    measuring process died.

    Raises :class:`CommandError`.
    """
    check_format(asked.format)
    if asked.autotune not in ("off", "verify"):
        raise CommandError(f"--autotune {asked.autotune}: choose off or verify")
    if asked.against is None and (asked.rtol is not None or asked.atol is not None):
        raise CommandError("--rtol and --atol say how far outputs may differ: they go with --against")
    text = _text(asked.file)
    planned = _program(asked, text) if launches.is_program(text) else _planned(text, asked.file, asked.size)
    if asked.run is not None and planned.file_kind != "launches":
        raise CommandError("--run is for a program's own @triton.jit kernels: this file holds its arguments itself")
    if asked.kernel is not None and not any(document.named(k, asked.kernel) for k in planned.kernels):
        raise CommandError(f"{asked.file} defines no kernel {asked.kernel}{_names(planned)}")
    if asked.copy is not None:
        return _copied(asked, text, planned)
    verify = asked.autotune == "verify"
    caches = ["warm", "cold"] if asked.cold is None else ["cold"] if asked.cold else ["warm"]
    with tempfile.TemporaryDirectory(prefix="ridgeline-bench-", dir=_plain_folder()) as folder:
        copy = os.path.join(folder, "generated.py")
        # The harness is left out where its inputs were read: it is not needed, and may be what keeps the file from loading.
        whole = planned.file_kind == "module" and planned.inputs is None
        Path(copy).write_text(text if whole else planned.body, encoding="utf-8")
        against, notes = _against(asked, planned, folder)
        question = document.request(
            planned,
            path=copy,
            caches=caches,
            timeout_s=asked.timeout,
            verify=verify,
            only=asked.kernel,
            against=against,
        )
        env = _environment(environment(asked.env), folder, private=verify)
        status, result = _measured(question, interpreter(asked.python), folder, cwd=asked.cwd, env=env)
    if status == INTERRUPTED:
        raise CommandError("interrupted", INTERRUPTED)
    written = document.build(
        planned, result, verify=verify, exposed_share=asked.exposed_share, only=asked.kernel, against=against
    )
    written["notes"][:0] = notes
    if asked.format == "json":
        write_json(json.dumps(written, allow_nan=False).encode(), asked.output)
    else:
        from ridgeline.bench.text import show

        with text_console(asked.output) as console:
            show(written, console)
    return _status(written) or int(status != 0)


def _status(written: dict[str, Any]) -> int:
    problems = [k["problem"] for k in written["kernels"]]
    if problems and None not in problems:
        say(f"nothing could be measured: {problems[0]}")
        return 1
    failed = [k["name"] for k in written["kernels"] if k["against"] and not _agrees(k)]
    if failed:
        say(f"{', '.join(failed[:3])}: not the same result as the original's, or not compared")
    return 1 if failed else 0


def _agrees(kernel: dict[str, Any]) -> bool:
    return kernel["against"]["problem"] is None and bool(kernel["against"]["equal"])


def _planned(text: str, file: Path, sizes: list[str]) -> plan.Plan:
    given = named_sizes(sizes)
    try:
        planned = plan.read(text, str(file.absolute()), given)
    except plan.PlanError as error:
        raise CommandError(str(error)) from error
    if planned.file_kind == "kernel":
        callers.complete(planned, file.absolute())
    unknown = [name for name in given if name not in planned.symbols]
    if unknown:
        there = f"it has {', '.join(planned.symbols)}" if planned.symbols else "all its sizes are fixed"
        raise CommandError(f"--size {unknown[0]}: {file} has no such size; {there}")
    return planned


def _program(asked: Request, text: str) -> plan.Plan:
    """The kernels of a program's own, as a run launched them. Raises :class:`CommandError`."""
    from ridgeline import profile_io

    file = asked.file.absolute()
    for folder in _runs(asked.run, file):
        try:
            rows = launches.of_file(profile_io.read_sidecar(folder / "sidecar.json").triton_calls, file)
        except profile_io.UnreadableError:
            continue
        if rows:
            return launches.plan_of(rows, text, str(file), str(folder))
    raise CommandError(launches.NOT_RECORDED.format(file=asked.file))


def _runs(named: str | None, file: Path) -> list[Path]:
    """The run that was named, else those that may have launched the kernels of ``file``, newest first."""
    from ridgeline.runs.store import Store, StoreError, resolve_run

    if named is not None:
        try:
            return [resolve_run(Path(named), Store()).path]
        except StoreError as error:
            raise CommandError(f"--run {named}: {error}") from error
    mine = [info for info in Store().runs() if str(file) in (info.target, *info.files) or info.finished]
    mine.sort(key=lambda info: info.target != str(file))  # its own runs first; the order by time stays
    return [info.folder.path for info in mine[:RUNS_SEARCHED]]


def _names(planned: plan.Plan) -> str:
    """The kernels that there are, for a name that is not among them."""
    names = [kernel.name for kernel in planned.kernels]
    if not names:
        return ": it defines none"
    return f"; it defines {', '.join(names[:5])}{f' and {len(names) - 5} more' if len(names) > 5 else ''}"


def _copied(asked: Request, text: str, planned: plan.Plan) -> int:
    """Writes the editable copy and says how to measure it. An existing file may hold edits: it is never overwritten."""
    assert asked.copy is not None
    if asked.against is not None:
        raise CommandError("--copy makes a copy to edit, --against measures an edited one: one at a time")
    if planned.file_kind == "launches" and asked.kernel is None:
        raise CommandError(f"--copy of a program takes one kernel: add --kernel{_names(planned)}")
    if planned.file_kind == "module" and not planned.kernels:
        raise CommandError(f"{asked.file} defines no kernels: there is nothing to edit")
    try:
        with asked.copy.open("x", encoding="utf-8") as out:
            out.write(workbench.copy_of(text, planned, asked.kernel))
    except FileExistsError as error:
        raise CommandError(f"{asked.copy} is there already, perhaps with edits: name another file") from error
    except OSError as error:
        raise CommandError(f"cannot write {asked.copy}: {error.strerror or error}") from error
    only = f" --kernel {asked.kernel}" if asked.kernel is not None and planned.file_kind != "kernel" else ""
    print(asked.copy)
    say(f"edit it, then: ridgeline bench {shlex.quote(str(asked.file))} --against {shlex.quote(str(asked.copy))}{only}")
    return 0


def _against(asked: Request, planned: plan.Plan, folder: str) -> tuple[document.Against | None, list[str]]:
    """The edited copy, put beside the original's text, and what is to be said about it. Raises :class:`CommandError`."""
    if asked.against is None:
        return None, []
    text = _text(asked.against)
    edited = _planned(text, asked.against, asked.size)
    found, notes = workbench.pairs(planned, edited, asked.kernel)
    if not found:
        if {k.name for k in planned.kernels} & {k.name for k in edited.kernels} and asked.kernel is None:
            raise CommandError(
                f"every kernel of {asked.against} is as in {asked.file}: edit one, or name one with --kernel to compare it anyway"
            )
        names = [kernel.name for kernel in planned.kernels if asked.kernel in (None, kernel.name)]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        raise CommandError(f"{asked.against} holds none of the kernels to compare ({', '.join(names[:3])}{more})")
    copy = os.path.join(folder, "edited.py")
    Path(copy).write_text(edited.body, encoding="utf-8")
    return document.Against(str(asked.against), copy, text, found, (asked.rtol, asked.atol)), notes


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise CommandError(f"{file} is too large for a generated file")
        # An editor may have put a mark of the encoding first.
        return file.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise CommandError(f"cannot read {file}: {error.strerror or error}") from error


def _plain_folder() -> str | None:
    """None for the system's temporary folder; another where its name would break Inductor's C++ compilation."""
    return None if compile_folders.harmless(tempfile.gettempdir()) else "/tmp"


def _environment(asked: dict[str, str], folder: str, *, private: bool) -> dict[str, str]:
    """The user's caches as they are for a plain benchmark (nothing new is compiled there that the module would not
    compile itself); folders of our own for a search, and where the name of theirs would break the compilation."""
    env = {**os.environ, **asked}
    env.update(compile_folders.instead(env))
    for name in CACHE_FOLDERS:
        if private or not compile_folders.harmless(env.get(name, "")):
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
        document.cut_short(result, status, asked["timeout_s"])
    return status, result
