"""Settings of section ``ridgeline``: their defaults, their reading, and the ``${…}`` in them.

Whatever a client sends is read leniently, key by key: a value of the wrong type counts as absent and is reported once, so
that one typing error does not switch everything off.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

SEVERITIES = ("off", "hint", "information", "warning", "error")


class SettingError(ValueError):
    """A setting cannot be used; the message names it and says what to do."""


@dataclass(slots=True)
class RunSettings:
    args: list[str] = field(default_factory=list)
    cwd: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    envFile: str | None = None
    steps: int | None = None
    warmup: int | None = None
    device: str = "auto"
    stacks: bool = False
    memory: bool = False
    lines: bool = True
    then: str = "stop"


@dataclass(slots=True)
class AnnotationSettings:
    lenses: bool = True
    hints: bool = True
    hovers: bool = True
    diagnostics: bool = True
    heatMap: bool = True
    minimumPercent: float = 1.0
    maximumLenses: int = 200


@dataclass(slots=True)
class AnalysisSettings:
    python: str | None = None
    wheelhouse: str | None = None


@dataclass(slots=True)
class StorageSettings:
    path: str | None = None


@dataclass(slots=True)
class DiagnosticSettings:
    severity: dict[str, str] = field(default_factory=dict)

    def of(self, code: str) -> str:
        """The severity of a finding code: its own, else that of ``*``, else ``information``."""
        chosen = self.severity.get(code, self.severity.get("*", "information"))
        return chosen if chosen in SEVERITIES else "information"


@dataclass(slots=True)
class NavigationSettings:
    definition: str = "line"
    """``line``: go to definition anywhere on a hot line leads to generated code; ``operators``: only between identifiers,
    so that it does not compete with another server's answer; ``off``."""


@dataclass(slots=True)
class Settings:
    python: str | None = None
    categories: dict[str, str | list[str]] = field(default_factory=dict)
    """Name -> pattern or patterns of kernels' names, as in ``[tool.ridgeline.categories]``, instead of those there."""
    analysis: AnalysisSettings = field(default_factory=AnalysisSettings)
    storage: StorageSettings = field(default_factory=StorageSettings)
    run: RunSettings = field(default_factory=RunSettings)
    annotations: AnnotationSettings = field(default_factory=AnnotationSettings)
    diagnostics: DiagnosticSettings = field(default_factory=DiagnosticSettings)
    navigation: NavigationSettings = field(default_factory=NavigationSettings)


def read(value: Any) -> tuple[Settings, list[str]]:
    """Settings from what a client sent (any JSON value), and one message for each value that was not understood."""
    problems: list[str] = []
    settings = Settings()
    _fill(settings, value, "ridgeline", problems)
    return settings, problems


def _fill(target: Any, value: Any, where: str, problems: list[str]) -> None:
    if value is None:
        return
    if not isinstance(value, dict):
        problems.append(f"{where} is not an object")
        return
    hints = get_type_hints(type(target))
    for entry in fields(target):
        if entry.name not in value:
            continue
        given, name = value[entry.name], f"{where}.{entry.name}"
        current = getattr(target, entry.name)
        if is_dataclass(current):
            _fill(current, given, name, problems)
        elif _fits(given, hints[entry.name]):
            setattr(target, entry.name, float(given) if hints[entry.name] is float else given)
        elif given is not None:
            problems.append(f"{name}: {given!r} is not a {_words(hints[entry.name])}")


def _fits(value: Any, kind: Any) -> bool:
    if kind is bool:
        return isinstance(value, bool)
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind is str:
        return isinstance(value, str)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is list:
        return isinstance(value, list) and all(_fits(item, arguments[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(_fits(item, arguments[1]) for item in value.values())
    return any(_fits(value, option) for option in arguments if option is not type(None))


def _words(kind: Any) -> str:
    names = {bool: "boolean", float: "number", int: "whole number", str: "string"}
    if kind in names:
        return names[kind]
    if get_origin(kind) is dict and get_args(kind)[1] is not str:
        return "map of patterns or lists of them"
    return {list: "list of strings", dict: "map of strings"}.get(get_origin(kind), "string or whole number")


_VARIABLE = re.compile(r"\$\{([^}]*)\}")


def substitute(text: str, *, name: str, file: Path | None, folder: Path | None) -> str:
    """Replaces ``${workspaceFolder}``, ``${file}``, ``${fileDirname}``, ``${env:NAME}`` and ``${userHome}``.

    Raises :class:`SettingError` for any other variable and for one without a value here: passing it on would only fail
    later and less clearly. An unset environment variable is the empty string, as in the editors.
    """

    def value(match: re.Match[str]) -> str:
        variable = match.group(1)
        if variable.startswith("env:"):
            return os.environ.get(variable[4:], "")
        known = {
            "workspaceFolder": folder,
            "workspaceRoot": folder,
            "file": file,
            "fileDirname": file.parent if file is not None else None,
            "fileBasenameNoExtension": file.stem if file is not None else None,
            "userHome": Path.home(),
        }
        if variable not in known:
            raise SettingError(
                f"{name}: unknown variable ${{{variable}}}; known are {', '.join(sorted(known))}, env:NAME"
            )
        found = known[variable]
        if found is None:
            raise SettingError(f"{name}: ${{{variable}}} has no value here; open a folder, or give a plain path")
        return str(found)

    return _VARIABLE.sub(value, text)


def read_env_file(path: Path) -> dict[str, str]:
    """``KEY=VALUE`` lines of a ``.env`` file: ``#`` comments, an optional ``export``, optional quotes around the value.

    Raises :class:`SettingError` when the file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"ridgeline.run.envFile: cannot read {path}: {error}") from error
    found: dict[str, str] = {}
    for line in text.splitlines():
        line = line.strip().removeprefix("export ").lstrip()
        key, equals, value = line.partition("=")
        key, value = key.strip(), value.strip()
        if not equals or not key or key.startswith("#"):
            continue
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        else:
            value = re.split(r"\s#", value, maxsplit=1)[0].rstrip()
        found[key] = value
    return found
