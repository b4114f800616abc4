"""What torch.compile had to say: graph breaks, recompilations, skipped CUDA graphs, fallbacks, each with its reason.

Torch tells these only under ``TORCH_LOGS``, which would change what the program prints. So the functions that decide
them are wrapped; each wrap is guarded by name, for they are private.
"""

from __future__ import annotations

import inspect
import logging
import sys
import time
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

LIMIT = 500
REASON = 2000
"""Characters of a reason."""
_FALLBACK_SIGNS = ("recompile_limit", "cache_size_limit", "suppress_errors", "falling back to eager")


class CompileNotes:
    """Rows of ``Sidecar.compile_notes``, in order, without repetitions."""

    def __init__(self, is_user: Callable[[str], bool], complain: Callable[[str, BaseException | str], None]) -> None:
        self._is_user, self._complain = is_user, complain
        self.rows: list[dict[str, Any]] = []
        self._seen: set[tuple[Any, ...]] = set()

    def add(self, kind: str, reason: str, file: str | None = None, line: int | None = None) -> None:
        key = (kind, reason[:200], file, line)
        if key in self._seen or len(self.rows) >= LIMIT:
            return
        self._seen.add(key)
        row = {"kind": kind, "reason": reason[:REASON], "file": file, "line": line, "time_ns": time.time_ns()}
        self.rows.append(row)

    # ------------------------------------------------------------------ graph breaks
    def on_symbolic_convert(self, module: ModuleType) -> None:
        """``torch._dynamo.symbolic_convert``: every break passes ``log_graph_break``, a method or a function."""
        notes = self
        holder: Any = next(
            (h for h in (getattr(module, "InstructionTranslatorBase", None), module) if hasattr(h, "log_graph_break")),
            None,
        )
        if holder is None:
            self._complain("graph breaks", "torch._dynamo has no log_graph_break")
            return
        original = holder.log_graph_break

        def log_graph_break(*args: Any, **kwargs: Any) -> Any:
            bound: dict[str, Any] = {}
            try:
                bound = dict(inspect.signature(original).bind(*args, **kwargs).arguments)
                if not getattr(bound.get("exc"), "logged", False):
                    notes._graph_break(bound)
            except (TypeError, AttributeError, ValueError) as error:
                notes._complain("graph break", error)
            return original(*args, **kwargs)

        holder.log_graph_break = log_graph_break

    def _graph_break(self, bound: dict[str, Any]) -> None:
        from torch._guards import TracingContext

        stack = bound.get("user_stack") or getattr(bound.get("exc"), "real_stack", None)
        if stack is None:
            stack = TracingContext.extract_stack()
        frames = list(stack or [])
        users = [frame for frame in frames if self._is_user(frame.filename)]
        frame = users[-1] if users else frames[-1] if frames else None
        reason = str(bound.get("reason") or bound.get("exc") or "")
        self.add("break", reason, frame and frame.filename, frame and frame.lineno)

    # ------------------------------------------------------------------ recompilations
    def on_convert_frame(self, module: ModuleType) -> None:
        """``torch._dynamo.convert_frame``: it asks why no cached code fits before it compiles a frame again."""
        name = "get_and_maybe_log_recompilation_reasons"
        original = getattr(module, name, None)
        if original is None:
            self._complain("recompilations", f"torch._dynamo.convert_frame has no {name}")
            return
        notes = self

        def reasons_of(cache_entry: Any, frame: Any, *args: Any, **kwargs: Any) -> Any:
            reasons = original(cache_entry, frame, *args, **kwargs)
            code = getattr(frame, "f_code", None)
            if reasons and code is not None:
                notes.add("recompile", "\n".join(map(str, reasons)), code.co_filename, code.co_firstlineno)
            return reasons

        setattr(module, name, reasons_of)
        handler = _Warnings(self)
        logging.getLogger("torch._dynamo.convert_frame").addHandler(handler)

    # ------------------------------------------------------------------ CUDA graphs
    def on_cudagraph_utils(self, module: ModuleType) -> None:
        """``torch._inductor.cudagraph_utils``, before others import the function by name."""
        name = "log_cudagraph_skip_and_bump_counter"
        original = getattr(module, name, None)
        if original is None:
            self._complain("skipped CUDA graphs", f"torch._inductor.cudagraph_utils has no {name}")
            return
        notes = self

        def skip(msg: str) -> Any:
            frame = _nearest_user_frame(notes._is_user)
            notes.add("cudagraph_skip", str(msg), *frame)
            return original(msg)

        setattr(module, name, skip)


class _Warnings(logging.Handler):
    """Takes Dynamo's warnings that a function runs uncompiled. A further handler: what is printed stays."""

    def __init__(self, notes: CompileNotes) -> None:
        super().__init__(logging.WARNING)
        self._notes = notes

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except (TypeError, ValueError):
            return
        if any(sign in text for sign in _FALLBACK_SIGNS):
            self._notes.add("fallback", text, *_nearest_user_frame(self._notes._is_user))


def _nearest_user_frame(is_user: Callable[[str], bool]) -> tuple[str | None, int | None]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_user(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None, None
