"""When CUPTI is detached, driven by hand: Kineto's part is played by a thread that ends as its own does."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from ridgeline.agent import cupti


class Kineto:
    """Begins a finalizing thread at the end of a session, as ``TEARDOWN_CUPTI`` says then; a call of the runtime frees it."""

    def __init__(self) -> None:
        self.switch: list[tuple[str, str | None]] = []
        self.calls = 0
        self.needed = 3
        self._called = threading.Event()
        self.torch: Any = SimpleNamespace(
            cuda=SimpleNamespace(synchronize=self._synchronize), version=SimpleNamespace(cuda="13.0")
        )

    def _synchronize(self) -> None:
        self.calls += 1
        if self.calls >= self.needed:
            self._called.set()

    def start(self) -> None:
        self.switch.append(("start", os.environ.get(cupti.SWITCH)))

    def stop(self, last: bool = False) -> None:
        assert last
        self.switch.append(("stop", os.environ.get(cupti.SWITCH)))
        if os.environ.get(cupti.SWITCH) == "1":
            threading.Thread(target=self._called.wait, daemon=True).start()

    def end(self) -> None:
        self._called.set()


@pytest.fixture
def kineto(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kineto]:
    monkeypatch.delenv(cupti.SWITCH, raising=False)
    monkeypatch.setattr(cupti, "PATIENCE_S", 0.3)
    made = Kineto()
    yield made
    made.end()


def test_the_switch_is_on_for_the_end_of_one_session_and_its_thread_is_waited_for(kineto: Kineto) -> None:
    monkey = os.environ.get(cupti.SWITCH)
    assert cupti.detach(kineto.torch, kineto)
    assert kineto.switch == [("start", None), ("stop", "1")]
    assert kineto.calls >= kineto.needed
    assert os.environ.get(cupti.SWITCH) == monkey


def test_a_finalization_that_does_not_come_is_told(kineto: Kineto) -> None:
    kineto.needed = 10**9
    began = time.monotonic()
    assert not cupti.detach(kineto.torch, kineto)
    assert time.monotonic() - began < 20
    assert cupti.SWITCH not in os.environ


def test_what_the_user_has_set_comes_back(kineto: Kineto, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cupti.SWITCH, "1")
    with cupti.kept():
        assert os.environ[cupti.SWITCH] == "0"
    assert os.environ[cupti.SWITCH] == "1"
    assert cupti.detach(kineto.torch, kineto)
    assert os.environ[cupti.SWITCH] == "1"
    with cupti.switched("0"):
        os.environ[cupti.SWITCH] = "2"  # torch sets it itself where it compiles with CUDA graphs
    assert os.environ[cupti.SWITCH] == "2"


@pytest.mark.parametrize(
    ("version", "kinds", "switch", "possible"),
    [
        ("13.0", ["cuda"], None, True),
        ("12.6", ["cuda"], "1", True),
        ("12.4", ["cuda"], None, False),
        ("11.8", ["cuda"], None, False),
        ("13.0", ["cuda"], "0", False),
        ("13.0", [], None, False),
        ("13.0", ["xpu"], None, False),
        (None, ["cuda"], None, False),
    ],
)
def test_where_cupti_can_be_detached(
    version: str | None, kinds: list[str], switch: str | None, possible: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(cupti.SWITCH, raising=False)
    if switch is not None:
        monkeypatch.setenv(cupti.SWITCH, switch)
    monkeypatch.setattr(cupti, "_threads", lambda: {1})
    torch = SimpleNamespace(version=SimpleNamespace(cuda=version))
    assert cupti.can_detach(torch, kinds) == possible
    monkeypatch.setattr(cupti, "_threads", lambda: None)
    assert not cupti.can_detach(torch, kinds)
