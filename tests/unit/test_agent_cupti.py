"""When CUPTI is detached, driven by hand: Kineto's part is played by a thread that ends as its own does."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ridgeline.agent import cupti, detaching
from ridgeline.agent import kineto as kineto_module
from ridgeline.agent.calls import UnfinishedCalls


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
    ("version", "switch", "reason"),
    [
        ("13.0", None, None),
        ("12.6", "1", None),
        ("12.4", None, "CUDA 12.4"),
        ("11.8", None, "CUDA 11.8"),
        ("13.0", "0", "TEARDOWN_CUPTI=0 is set"),
        (None, None, "CUDA of this torch"),
    ],
)
def test_where_cupti_can_be_detached(
    version: str | None, switch: str | None, reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(cupti.SWITCH, raising=False)
    if switch is not None:
        monkeypatch.setenv(cupti.SWITCH, switch)
    monkeypatch.setattr(cupti, "_threads", lambda: {1})
    torch = SimpleNamespace(version=SimpleNamespace(cuda=version))
    assert cupti.fixed(torch) == reason
    monkeypatch.setattr(cupti, "_threads", lambda: None)
    assert cupti.fixed(torch) is not None


class Calls:
    def __init__(self, at_work: bool = False) -> None:
        self.at_work = at_work

    def others_at_work(self) -> bool:
        return self.at_work


def process(pools: list[dict[str, Any]] | None, group: bool = False) -> Any:
    """A torch whose allocator has such segments."""
    cuda = SimpleNamespace() if pools is None else SimpleNamespace(memory_snapshot=lambda: pools)
    distributed = SimpleNamespace(is_available=lambda: True, is_initialized=lambda: group)
    return SimpleNamespace(cuda=cuda, distributed=distributed, version=SimpleNamespace(cuda="13.0"))


@pytest.fixture
def no_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detaching, "_captured", False)
    monkeypatch.setattr(kineto_module, "_graphs", False)
    monkeypatch.delenv(cupti.SWITCH, raising=False)


@pytest.mark.usefixtures("no_graphs")
def test_cupti_stays_where_it_was_not_tried_or_harmed() -> None:
    """After a replay of a CUDA graph it did harm: "unspecified launch failure" on an H200."""
    plain: list[dict[str, Any]] = [{"segment_pool_id": (0, 0)}]

    def hindrance(torch: Any, at_work: bool = False) -> str | None:
        return detaching.hindrance(torch, Calls(at_work))  # type: ignore[arg-type]

    assert hindrance(process(plain)) is None
    assert hindrance(process([])) is None
    assert hindrance(process([*plain, {"segment_pool_id": (0, 3)}])) == "the program uses CUDA graphs"
    assert hindrance(process(None)) == hindrance(process([{}])) == "the allocator does not tell of CUDA graphs"
    assert hindrance(process(plain, group=True)) == "a process group is at work"
    assert hindrance(process(plain), at_work=True) == "other threads are at work"


@pytest.mark.usefixtures("no_graphs")
def test_a_capture_through_python_is_noticed() -> None:
    class CUDAGraph:
        def capture_begin(self, pool: object = None, capture_error_mode: str = "global") -> tuple[object, str]:
            return pool, capture_error_mode

    module: Any = SimpleNamespace(CUDAGraph=CUDAGraph)
    detaching.on_graphs(module)
    assert detaching.hindrance(process([]), Calls()) is None  # type: ignore[arg-type]
    assert CUDAGraph().capture_begin(1, capture_error_mode="relaxed") == (1, "relaxed")
    assert detaching.hindrance(process([]), Calls()) == "the program uses CUDA graphs"  # type: ignore[arg-type]


@pytest.mark.usefixtures("no_graphs")
@pytest.mark.parametrize("name", ["cudaGraphLaunch", "cuGraphLaunch", "cudaStreamBeginCapture", "cudaLaunchKernel"])
def test_a_graph_in_a_recording_is_noticed_whoever_launched_it(name: str) -> None:
    recording = object.__new__(kineto_module.Recording)
    events = [SimpleNamespace(name=lambda: "aten::mm"), SimpleNamespace(name=lambda: name)]
    recording._results = lambda: SimpleNamespace(events=lambda: events)  # type: ignore[method-assign]
    recording._look_for_graphs()
    assert kineto_module.graphs_seen() == ("Kernel" not in name)


def test_threads_at_work_are_told_from_those_that_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = sys._current_frames
    others = set(frames()) - {threading.get_ident()}  # the test runner's own, and what other tests left
    monkeypatch.setattr(sys, "_current_frames", lambda: {at: f for at, f in frames().items() if at not in others})
    calls = UnfinishedCalls(str(tmp_path / "torch"))
    assert not calls.others_at_work()
    done = threading.Event()
    idle = ThreadPoolExecutor(1)
    idle.submit(int).result()
    assert not calls.others_at_work(), "a pool's thread without work"

    def runs_as(file: str) -> threading.Thread:
        names: dict[str, Any] = {}
        exec(compile("def run(done): done.wait()", str(tmp_path / file), "exec"), names)
        thread = threading.Thread(target=names["run"], args=(done,))
        thread.start()
        return thread

    threads = [runs_as("site/tqdm/_monitor.py"), runs_as("torch/_inductor/compile_worker/subproc_pool.py")]
    try:
        assert not calls.others_at_work(), (
            "every compiled program has these: Inductor's reader, and tqdm's monitor by it"
        )
        threads.append(runs_as("train.py"))
        assert calls.others_at_work()
    finally:
        done.set()
        for thread in threads:
            thread.join()
        idle.shutdown()
