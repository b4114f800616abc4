"""From a click to a run's specification: target, interpreter, folder, arguments, environment, analysis."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ridgeline
from ridgeline.lsp.places import folder_of
from ridgeline.lsp.settings import RunSettings, SettingError, Settings, read_env_file, substitute
from ridgeline.runs import compile_folders
from ridgeline.runs.spec import RunSpec

Json = dict[str, Any]

EDITOR_VARIABLES = (
    "ELECTRON_RUN_AS_NODE",
    "ELECTRON_NO_ATTACH_CONSOLE",
    "PYTHONHOME",
    "PYTHONPYCACHEPREFIX",
    "CHROME_DESKTOP",
)
"""Variables of the editor or of the server's own interpreter that a program must not inherit. The user's PYTHONPATH stays."""

ANALYSIS_BOOT = "import runpy, sys; sys.path.insert(0, {folder!r}); runpy.run_module('ridgeline.analysis', run_name='__main__', alter_sys=True)"
ANALYSIS_NEEDS = ("numpy", "msgspec")


class RequestError(ValueError):
    """What was asked cannot be run; ``code`` names the cause for buttons, ``hint`` what to do."""

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


@dataclass(slots=True)
class Where:
    """What paths in settings refer to."""

    file: Path | None
    folder: Path | None
    """The workspace folder that holds the file, else the first one."""

    @property
    def default_cwd(self) -> Path:
        return self.folder or (self.file.parent if self.file is not None else Path.home())

    def resolve(self, text: str, name: str) -> str:
        return substitute(text, name=name, file=self.file, folder=self.folder)

    def path(self, text: str, name: str) -> Path:
        return (self.default_cwd / Path(self.resolve(text, name)).expanduser()).absolute()


def run_spec(params: Json, file: Path | None, folders: list[Path], settings: Settings) -> RunSpec:
    """The specification of a run. Raises :class:`RequestError` with a cause for what is plainly wrong."""
    where = Where(file, folder_of(file, folders))
    run = settings.run
    try:
        module = params.get("module")
        if not module and file is None:
            raise RequestError("no-target", "there is no file to profile", "open a Python file that is saved on disk")
        cwd_text = params.get("cwd") or run.cwd
        cwd = where.path(cwd_text, "ridgeline.run.cwd") if cwd_text else where.default_cwd
        arguments = params["args"] if params.get("args") is not None else run.args
        inputs = _module_inputs(file) if file is not None and not module and not arguments else None
        env = environment(params, run, where)
        if inputs is not None:  # a module by itself is compiled anew: in folders whose names do not break that
            env.update(compile_folders.instead({**inherited_environment(), **env}))
        return RunSpec(
            target=str(module) if module else str(file),
            module=bool(module),
            python=str(interpreter(params, settings, where)),
            cwd=str(cwd),
            args=[where.resolve(str(argument), "ridgeline.run.args") for argument in arguments],
            env=env,
            steps=_choice(params, "steps", run.steps),
            warmup=_choice(params, "warmup", run.warmup),
            device=_choice(params, "device", run.device),
            stacks=_choice(params, "stacks", run.stacks),
            memory=_choice(params, "memory", run.memory),
            lengths=bool(params.get("lengths")),
            lines=_choice(params, "lines", run.lines),
            then="continue" if _choice(params, "then", run.then) == "continue" else "stop",
            output="events",
            keep_on_cancel=False,
            user_roots=[str(folder) for folder in folders],
            analysis=[*analysis_command(params, settings, where), *category_options(settings.categories)],
            module_inputs=inputs,
        )
    except SettingError as error:
        raise RequestError("bad-setting", str(error)) from error


def _module_inputs(file: Path) -> Json | None:
    """What a generated module is called with, from its text, for one without a harness of its own; None for a program."""
    from ridgeline.bench.module_inputs import of_file  # not needed before the first run

    return of_file(file, {})


def _choice(params: Json, name: str, default: Any) -> Any:
    return params[name] if params.get(name) is not None else default


def interpreter(params: Json, settings: Settings, where: Where) -> Path:
    """The client's choice, the setting, a virtual environment of the folder, then ``python3`` on the path."""
    chosen = params.get("python") or settings.python
    if chosen:
        text = where.resolve(str(chosen), "ridgeline.python")
        found = shutil.which(text) if os.sep not in text else None
        path = Path(found) if found else where.path(str(chosen), "ridgeline.python")
        if not path.is_file():
            raise RequestError(
                "wrong-interpreter", f"no such interpreter: {path}", "choose another with the setting ridgeline.python"
            )
        return path
    for name in (".venv", "venv"):
        candidate = where.default_cwd / name / "bin" / "python"
        if candidate.is_file():
            return candidate
    found = shutil.which("python3") or shutil.which("python")
    if found is None:
        raise RequestError(
            "wrong-interpreter", "no Python interpreter was found", "set ridgeline.python to one that has torch"
        )
    return Path(found)


def environment(params: Json, run: RunSettings, where: Where) -> dict[str, str]:
    """Variables laid over the inherited ones: the env file's, the setting's, then the request's."""
    merged: dict[str, str] = {}
    env_file = params.get("envFile") or run.envFile
    if env_file:
        merged.update(read_env_file(where.path(str(env_file), "ridgeline.run.envFile")))
    for source in (run.env, params.get("env") or {}):
        merged.update({key: where.resolve(str(value), f"ridgeline.run.env.{key}") for key, value in source.items()})
    return merged


def category_options(categories: Mapping[str, str | list[str]]) -> list[str]:
    """The setting as options of the analysis. Raises :class:`SettingError` for what it would refuse after the run."""
    if not categories:
        return []
    from ridgeline import own_categories  # not needed before the first run

    found: list[str] = []
    for name, value in categories.items():
        patterns = [value] if isinstance(value, str) else value
        if not name.strip() or "=" in name or not patterns or not all(pattern.strip() for pattern in patterns):
            raise SettingError(
                f'ridgeline.categories: {name!r} takes a pattern or a list of them, as in "norms": "*layer_norm*"'
            )
        for pattern in patterns:
            found += ["--category", f"{name}={pattern}"]
    try:
        own_categories.from_options(found[1::2])
    except own_categories.CategoryError as error:
        raise SettingError(f"ridgeline.categories: {error}") from error
    return found


def inherited_environment() -> dict[str, str]:
    """This process's environment without what belongs to the editor: a program must run as it does in a terminal."""
    return {
        key: value for key, value in os.environ.items() if key not in EDITOR_VARIABLES and not key.startswith("VSCODE_")
    }


def analysis_command(params: Json, settings: Settings, where: Where) -> list[str]:
    """The command that turns a run folder into a profile: in the interpreter asked for, else in this one if it can.

    Raises :class:`RequestError` when there is none: better before a program has run for an hour than after.
    """
    chosen = params.get("analysisPython") or settings.analysis.python
    package = str(Path(ridgeline.__file__).resolve().parent.parent)
    if chosen:
        python = str(where.path(str(chosen), "ridgeline.analysis.python"))
        if not os.path.isfile(python):
            raise RequestError(
                "analysis-missing",
                f"no such interpreter for the analysis: {python}",
                "correct ridgeline.analysis.python",
            )
        return [python, "-c", ANALYSIS_BOOT.format(folder=package)]
    missing = [name for name in ANALYSIS_NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        raise RequestError(
            "analysis-missing",
            f"the analysis needs {' and '.join(missing)}, which {sys.executable} does not have",
            "set ridgeline.analysis.python to an interpreter with numpy, pandas and msgspec",
        )
    return [sys.executable, "-c", ANALYSIS_BOOT.format(folder=package)]
