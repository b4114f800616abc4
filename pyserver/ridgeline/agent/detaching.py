"""When CUPTI goes: once nothing more is to be recorded, and no call into torch is left from the last recording."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from . import cupti
from .calls import UnfinishedCalls
from .kineto import Recording
from .spec import Spec


class Detaching:
    """``want`` after what may be the last recording; then ``now`` until it is no longer ``due``."""

    def __init__(self, torch: Any, spec: Spec, calls: UnfinishedCalls) -> None:
        self._torch, self._calls = torch, calls
        self._spec = replace(spec, memory=False, stacks=False)
        self.due = False
        self.gone = False
        """Nothing was recorded since CUPTI was detached."""

    def want(self, kinds: list[str]) -> None:
        """A recording of these accelerators has ended."""
        self.due = not self.gone and cupti.can_detach(self._torch, kinds)

    def now(self) -> bool:
        """Detach; False while a call outlives the last recording, for this takes a session of its own."""
        if not self._calls.ended():
            return False
        self.due = False
        self.gone = cupti.detach(self._torch, Recording(self._torch, self._spec))
        self._calls.note()
        return True

    def attached(self) -> None:
        """A session begins: the program's own, or one of ours."""
        self.due = self.gone = False
