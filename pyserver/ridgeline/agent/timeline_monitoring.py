"""The user-line timeline by ``sys.monitoring`` (Python 3.12 and newer)."""

from __future__ import annotations

import sys
import threading
import time
from array import array
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from .timeline import IsUser, Timeline, user_frames


class MonitoringTimeline(Timeline):
    """Callbacks for entries, lines and returns; a library's code switches itself off at its first event.

    Uses a tool id of its own, so a debugger or coverage goes on beside it.
    """

    def __init__(self, is_user: IsUser) -> None:
        super().__init__(is_user)
        self._tool: int | None = None
        self._numbers: dict[CodeType, int] = {}
        self._callbacks: dict[int, Callable[..., Any]] = {}
        self._left_out = False
        """Whether code of the user's was switched off, too."""

    def _claim(self) -> int | None:
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        for tool in (4, 3, 1, 2, 0, 5):
            if monitoring.get_tool(tool) is None:
                monitoring.use_tool_id(tool, "ridgeline")
                return tool
        return None

    def clear(self) -> None:
        super().clear()
        self._numbers = {}

    def start(self) -> None:
        """Begin in all threads, each with the user's frames that it is in."""
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        if self._tool is None:
            self._tool = self._claim()
        if self._tool is None:
            self.blocked = "all tool ids of sys.monitoring are taken, so eager operators have no lines"
            return
        tool, disable, now = self._tool, monitoring.DISABLE, time.time_ns
        numbers, is_user, timeline = self._numbers, self.is_user, self
        own, new_buffer = self._own, self.buffer

        def number_of(code: CodeType) -> int:
            number = timeline.code_id(code) if is_user(code.co_filename) else -1
            numbers[code] = number
            return number

        def at_its_end(buffer: array[int], line: int) -> bool:
            """Whether this thread's portion is full; if it is only long, what is called all the time is left out from here on."""
            frame: FrameType | None = sys._getframe(3)
            if frame is not None and line == -1:
                frame = frame.f_back  # its entry is yet to be written
            if len(buffer) >= 2 * timeline.budget:
                timeline.leave(buffer, frame)
                monitoring.set_events(tool, 0)
                return True
            for code in timeline.codes_of(timeline.hot(buffer, own.looked)):
                numbers[code] = -1
                timeline._left_out = True
            timeline.enter(buffer, [f for f in user_frames(frame, is_user) if numbers.get(f.f_code, 0) >= 0])
            timeline.look_again(buffer)
            return False

        def put(code: CodeType, line: int) -> Any:
            number = numbers.get(code)
            if number is None:
                number = number_of(code)
            if number < 0:
                return disable
            try:
                buffer = own.buffer
            except AttributeError:
                buffer = new_buffer()
            if len(buffer) >= own.due:
                if at_its_end(buffer, line):
                    return None
                number = numbers[code]
                if number < 0:
                    return disable
            buffer.append(now())
            buffer.append(line << 32 | number)
            return None

        def on_start(code: CodeType, offset: int) -> Any:
            return put(code, -1)

        def on_resume(code: CodeType, offset: int) -> Any:
            if put(code, -1) is disable:
                return disable
            return put(code, sys._getframe(1).f_lineno)

        def on_throw(code: CodeType, offset: int, error: BaseException) -> None:
            if put(code, -1) is not disable:  # cannot be disabled: the answer is dropped
                put(code, sys._getframe(1).f_lineno)

        def on_line(code: CodeType, line: int) -> Any:
            return put(code, line)

        def on_return(code: CodeType, offset: int, value: Any) -> Any:
            return put(code, 0)

        def on_unwind(code: CodeType, offset: int, value: Any) -> None:
            put(code, 0)  # cannot be disabled: the answer is dropped

        events = monitoring.events
        self._callbacks = {
            events.PY_START: on_start,
            events.PY_RESUME: on_resume,
            events.PY_THROW: on_throw,
            events.LINE: on_line,
            events.PY_RETURN: on_return,
            events.PY_YIELD: on_return,
            events.PY_UNWIND: on_unwind,
        }
        for event, callback in self._callbacks.items():
            monitoring.register_callback(tool, event, callback)
        self._enter_present_frames()
        self.on = True
        self.resume()

    def resume(self) -> None:
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        if self.on and self._tool is not None:
            monitoring.set_events(self._tool, sum(self._callbacks))

    def _enter_present_frames(self) -> None:
        natives = {thread.ident: thread.native_id for thread in threading.enumerate()}
        for ident, frame in sys._current_frames().items():
            present = user_frames(frame, self.is_user)
            native = natives.get(ident)
            if not present or native is None:
                continue
            self.enter(self._buffers.setdefault(native, array("q")), present)

    def stop(self) -> None:
        if not self.on or self._tool is None:
            return
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        self.on = False
        monitoring.set_events(self._tool, 0)
        for event in self._callbacks:
            monitoring.register_callback(self._tool, event, None)
        if self._left_out:  # a later recording sees it again
            self._left_out = False
            monitoring.restart_events()
        monitoring.free_tool_id(self._tool)
        self._tool = None
