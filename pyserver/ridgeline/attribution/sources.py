"""Source text, read safely: the run's snapshots first, then the disk, within caps.

A path in a trace or a log is untrusted, so only regular ``.py`` files up to a size are opened, for reading. A recorded
line is believed only as far as its recorded text agrees with the file: a cached compilation can carry the lines of an
older edit, and a wrong line is worse than none.
"""

from __future__ import annotations

import ast
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ridgeline.attribution.paths import remap
from ridgeline.sidecar import Sidecar

MAX_BYTES = 20_000_000
MAX_TEXT = 400
"""Characters of a line that are shown."""

_RESUMED = re.compile(r"^torch_dynamo_resume_in_(?P<name>.+)_at_\d+$")

Check = Literal["match", "stale", "unknown"]


@dataclass(slots=True, frozen=True)
class Function:
    """A ``def`` of a file. ``first_line`` is that of its first decorator, as in a code object."""

    name: str
    qualified_name: str
    first_line: int
    def_line: int
    last_line: int
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Module


class SourceStore:
    """The text of the user's files as the run saw them.

    ``roots`` are (old, new) prefixes of paths, for traces from elsewhere; ``resolve`` tells what a path is called here.
    ``recorded_ns`` is when the recording began, in unix nanoseconds.
    """

    def __init__(
        self,
        *,
        sidecar: Sidecar | None = None,
        run_dir: Path | None = None,
        roots: Sequence[tuple[str, str]] = (),
        cwd: str | None = None,
        recorded_ns: int | None = None,
    ) -> None:
        self.roots = tuple(roots)
        self.cwd = cwd or (sidecar.cwd if sidecar else None)
        self.recorded_ns = recorded_ns
        self._snapshots: dict[str, Path] = {}
        if sidecar is not None and run_dir is not None:
            for file in sidecar.files:
                snapshot = run_dir / file.snapshot
                if file.snapshot and file.kind != "cubin" and _inside(snapshot, run_dir):
                    self._snapshots[file.path] = snapshot
        self.mapped = 0
        """How many paths a root was found for."""
        self._lines: dict[str, list[str] | None] = {}
        self._trees: dict[str, ast.Module | None] = {}
        self._functions: dict[str, list[Function]] = {}

    def resolve(self, path: str) -> str:
        """The name under which ``path`` is shown: mapped by the roots, absolute where a shortened path can be completed."""
        path = path.replace("\\", "/")
        mapped = remap(path, self.roots)
        self.mapped += mapped != path
        if not mapped.startswith("/") and self.cwd:
            candidate = f"{self.cwd.rstrip('/')}/{mapped}"
            if candidate in self._snapshots or _is_regular(Path(candidate)):
                return candidate
        return mapped

    def lines(self, path: str) -> list[str] | None:
        """The lines of a file without their ends, None where it is not at hand."""
        if path not in self._lines:
            text = self._read(path)
            self._lines[path] = None if text is None else text.splitlines()
        return self._lines[path]

    def text(self, path: str, line: int) -> str | None:
        """One line, stripped and capped."""
        lines = self.lines(path)
        if lines is None or not 1 <= line <= len(lines):
            return None
        return lines[line - 1].strip()[:MAX_TEXT]

    def check(self, path: str, line: int, recorded: str | None) -> Check:
        """Whether ``line`` still holds the recorded text; ``unknown`` where either is not at hand."""
        lines = self.lines(path)
        if recorded is None or lines is None:
            return "unknown"
        if not 1 <= line <= len(lines):
            return "stale"
        return "match" if _same(lines[line - 1], recorded) else "stale"

    def unchanged(self, path: str) -> bool:
        """Whether the text at hand is surely the one that ran: a snapshot of the run, or a file older than the recording."""
        mapped = self.resolve(path)
        if path in self._snapshots or mapped in self._snapshots:
            return True
        if self.recorded_ns is None:
            return False
        try:
            return Path(mapped).stat().st_mtime_ns < self.recorded_ns
        except (OSError, ValueError):
            return False

    def tree(self, path: str) -> ast.Module | None:
        """The parsed file (never executed), None where it is not at hand or not Python."""
        if path not in self._trees:
            lines = self.lines(path)
            try:
                self._trees[path] = None if lines is None else ast.parse("\n".join(lines))
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                self._trees[path] = None
        return self._trees[path]

    def functions(self, path: str) -> list[Function]:
        """Every function of a file, outer before inner; empty where the file is not at hand."""
        if path not in self._functions:
            tree = self.tree(path)
            found: list[Function] = []
            if tree is not None:
                _collect(tree, "", found)
            self._functions[path] = found
        return self._functions[path]

    def function_at(self, path: str, line: int, name: str) -> Function | None:
        """The function of that name whose code object says ``line`` (its first decorator's, else its ``def``)."""
        return next((f for f in self.functions(path) if f.name == name and line in (f.first_line, f.def_line)), None)

    def module_level(self, path: str) -> Function | None:
        """A file's top level as the function that it is to Python."""
        tree, lines = self.tree(path), self.lines(path)
        return None if tree is None else Function("<module>", "<module>", 1, 1, len(lines or ()), tree)

    def enclosing(self, path: str, line: int, name: str | None = None) -> Function | None:
        """The innermost function (of that name) around a line."""
        inside = [f for f in self.functions(path) if f.first_line <= line <= f.last_line and name in (None, f.name)]
        return inside[-1] if inside else None

    def class_of(self, path: str, function: Function) -> ast.ClassDef | None:
        """The class whose method a function is."""
        tree = self.tree(path)
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.ClassDef) and function.node in node.body:
                return node
        return None

    def encloses(self, path: str, line: int, name: str) -> bool:
        """Whether a line can lie in a function of that name; true where it cannot be told."""
        if name.startswith("<") or not self.functions(path):
            return True
        return self.enclosing(path, line, plain_function(name)) is not None

    def _read(self, path: str) -> str | None:
        candidates = [self._snapshots[path]] if path in self._snapshots else []
        if path.endswith(".py"):
            mapped = self.resolve(path)
            if mapped in self._snapshots:
                candidates.append(self._snapshots[mapped])
            if mapped.startswith("/"):
                candidates.append(Path(mapped))
        for candidate in candidates:
            if (text := read_text(candidate)) is not None:
                return text
        return None


def _collect(node: ast.AST, prefix: str, found: list[Function]) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{prefix}{child.name}"
            first = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
            found.append(Function(child.name, name, first, child.lineno, child.end_lineno or child.lineno, child))
            _collect(child, f"{name}.", found)
        elif isinstance(child, ast.ClassDef):
            _collect(child, f"{prefix}{child.name}.", found)
        else:
            _collect(child, prefix, found)


def plain_function(name: str) -> str:
    """The name in the source: without the qualification, and of code that Dynamo resumes after a break the original's."""
    plain = name.rpartition(".")[2]
    resumed = _RESUMED.match(plain)
    return resumed["name"] if resumed is not None else plain


def body_line(function: Function) -> int:
    """The line of the first statement that a call of the function executes (its docstring is none)."""
    body = function.node.body
    first = body[0]
    is_docstring = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    return (body[1] if is_docstring and len(body) > 1 else first).lineno


def calls(function: Function, line: int, name: str) -> bool:
    """Whether something on ``line`` calls a function or method of that name."""
    return any(
        isinstance(node, ast.Call)
        and callee_name(node) == name
        and node.lineno <= line <= (node.end_lineno or node.lineno)
        for node in ast.walk(function.node)
    )


def callee_name(call: ast.Call) -> str | None:
    """``f(…)`` and ``a.b.f(…)`` -> ``f``."""
    target = call.func
    if isinstance(target, ast.Attribute):
        return target.attr
    return target.id if isinstance(target, ast.Name) else None


def read_text(path: Path, limit: int = MAX_BYTES) -> str | None:
    """A regular file's text (replacement characters for bytes that are not UTF-8), None if it cannot be had."""
    try:
        if not _is_regular(path) or path.stat().st_size > limit:
            return None
        return path.read_bytes()[:limit].decode("utf-8-sig", "replace")
    except OSError:
        return None


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def _inside(path: Path, folder: Path) -> bool:
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except OSError:
        return False


def _same(line: str, recorded: str) -> bool:
    line, recorded = line.strip(), recorded.strip()
    return line == recorded or (len(recorded) >= MAX_TEXT and line.startswith(recorded))
