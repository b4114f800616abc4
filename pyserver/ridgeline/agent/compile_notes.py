"""What torch.compile could not do, with its own reason: ``Sidecar.compile_notes``.

Graph breaks and recompiles are read where torch logs them (its arguments and results, whatever the logging level), skipped
CUDA graphs from the logger that says so. Nothing is switched on that torch would not do by itself.
"""

from __future__ import annotations

import functools
import logging
import re
import sys
import time
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

MAX_NOTES = 500
MAX_REASON = 2000
_USER_LINE = re.compile(r'File "([^"]+)", line (\d+)')
_BREAK_PREFIX = re.compile(r"^Encountered graph break when attempting to trace [^\n]*\n+")


class CompileNotes:
    """Rows of ``Sidecar.compile_notes``: kind, reason, file, line, time_ns."""

    def __init__(self, is_user: Callable[[str], bool], complain: Callable[[str], None]) -> None:
        self.rows: list[dict[str, Any]] = []
        self._is_user, self._complain = is_user, complain

    # ------------------------------------------------------------------ hooks, by module
    def on_symbolic_convert(self, module: ModuleType) -> None:
        """``torch._dynamo.symbolic_convert``: every graph break passes ``log_graph_break``."""
        translator = getattr(module, "InstructionTranslatorBase", None)
        original = getattr(translator, "log_graph_break", None)
        if translator is None or original is None:
            self._complain("graph breaks are not seen: torch._dynamo has no log_graph_break")
            return

        @functools.wraps(original)
        def log_graph_break(this: Any, *args: Any, **kwargs: Any) -> Any:
            exc = next((v for v in [*kwargs.values(), *args] if isinstance(v, BaseException)), None)
            if not getattr(exc, "logged", False):
                reason = kwargs.get("reason") or next((a for a in args if isinstance(a, str)), "") or str(exc)
                self._break(this, reason, exc, kwargs.get("user_stack"))
            return original(this, *args, **kwargs)

        translator.log_graph_break = log_graph_break

    def on_convert_frame(self, module: ModuleType) -> None:
        """``torch._dynamo.convert_frame``: the guards that failed, one text for each earlier compilation."""
        original = getattr(module, "get_and_maybe_log_recompilation_reasons", None)
        if original is None:
            self._complain("recompiles are not seen: torch._dynamo has no get_and_maybe_log_recompilation_reasons")
            return

        @functools.wraps(original)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            reasons = original(*args, **kwargs)
            frame = next((a for a in [*args, *kwargs.values()] if hasattr(a, "f_code")), None)
            if isinstance(reasons, list) and reasons and frame is not None:
                reason, code = str(reasons[0]), frame.f_code
                used = [(f, int(n)) for f, n in _USER_LINE.findall(reason) if self._is_user(f)]
                file, line = used[-1] if used else (code.co_filename, code.co_firstlineno)
                self._add("recompile", reason, file, line)
            return reasons

        module.get_and_maybe_log_recompilation_reasons = wrapped  # type: ignore[attr-defined,unused-ignore]

    def on_cudagraph_utils(self, module: ModuleType) -> None:
        """``torch._inductor.cudagraph_utils``: "skipping cudagraphs due to …" is a warning of its logger."""
        logger = getattr(module, "cudagraphs_log", None)
        if not isinstance(logger, logging.Logger):
            self._complain("skipped CUDA graphs are not seen: torch._inductor.cudagraph_utils has no cudagraphs_log")
            return
        logger.addHandler(_Listener(self._skip))

    # ------------------------------------------------------------------ rows
    def _break(self, translator: Any, reason: str, exc: BaseException | None, stack: Any) -> None:
        stack = stack or getattr(exc, "real_stack", None)
        place = next((f for f in reversed(list(stack or [])) if self._is_user(f.filename)), None)
        if place is not None:
            file, line = place.filename, place.lineno
        else:
            code = getattr(translator, "f_code", None)
            file, line = getattr(code, "co_filename", None), getattr(translator, "lineno", None)
        self._add("break", _BREAK_PREFIX.sub("", reason), file, line)

    def _skip(self, message: str) -> None:
        if "skipping cudagraphs" not in message:
            return
        named = [(f, int(n)) for f, n in _USER_LINE.findall(message) if self._is_user(f)]
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not self._is_user(frame.f_code.co_filename):
            frame = frame.f_back
        calling = (frame.f_code.co_filename, frame.f_lineno) if frame is not None else (None, None)
        file, line = named[-1] if named else calling
        self._add("cudagraph_skip", message.split(" Found from", 1)[0], file, line)

    def _add(self, kind: str, reason: str, file: str | None, line: int | None) -> None:
        if len(self.rows) < MAX_NOTES:
            self.rows.append(
                {"kind": kind, "reason": reason[:MAX_REASON], "file": file, "line": line, "time_ns": time.time_ns()}
            )


class _Listener(logging.Handler):
    """Hands each message on; prints nothing."""

    def __init__(self, hear: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._hear = hear

    def emit(self, record: logging.LogRecord) -> None:
        self._hear(record.getMessage())
