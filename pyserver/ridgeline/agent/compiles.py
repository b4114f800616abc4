"""Compilations as torch._dynamo's callbacks report them."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import ModuleType
from typing import Any


class CompileWatch:
    """Keeps the rows of ``Sidecar.compiles`` and says when a compilation begins and ends."""

    def __init__(self, on_start: Callable[[], None], on_end: Callable[[], None]) -> None:
        self.rows: list[dict[str, Any]] = []
        self.active_since: int | None = None
        self._on_start, self._on_end = on_start, on_end

    def on_callback(self, module: ModuleType) -> None:
        """``torch._dynamo.callback``"""
        handler: Any = module.callback_handler  # type: ignore[attr-defined,unused-ignore]
        forget = handler.clear

        def clear() -> None:
            """``torch._dynamo.reset()`` drops all callbacks; ours come back."""
            forget()
            register()

        def register() -> None:
            handler.register_start_callback(self._start)
            handler.register_end_callback(self._end)

        handler.clear = clear
        register()

    def _start(self, args: Any) -> None:
        self.active_since = time.time_ns()
        self._on_start()

    def _end(self, args: Any) -> None:
        compile_id = getattr(args, "compile_id", None)
        self.rows.append(
            {
                "start_ns": self.active_since or time.time_ns(),
                "end_ns": time.time_ns(),
                "trigger": getattr(getattr(args, "callback_trigger", None), "name", ""),
                "compile_id": None if compile_id is None else str(compile_id),
            }
        )
        self.active_since = None
        self._on_end()
