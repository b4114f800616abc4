"""Loaders of the agent: whether batches were ready, what they hold, and how long unprofiled waits are."""

from __future__ import annotations

import queue
import time
from collections import OrderedDict
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Sampler, dataloader

from ridgeline.agent.handover import LOOKED, Asked, contents
from ridgeline.agent.loaders import Loaders


class Pair(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (torch.zeros(10), (1, 40)),
        (Pair(torch.zeros(10), torch.zeros(2, dtype=torch.int64)), (2, 56)),
        ({"a": [torch.zeros(1, dtype=torch.uint8), "text", 3], "b": OrderedDict(c=None)}, (1, 1)),
        ([np.zeros(3), torch.zeros(0)], (1, 24)),
        (object(), None),
        ([torch.nn.Parameter(torch.zeros(1))], None),
        ([0] * LOOKED, None),
        ([0] * (LOOKED - 1), (0, 0)),
    ],
)
def test_contents(batch: Any, expected: tuple[int, int] | None) -> None:
    assert contents(batch) == expected


def _iterator(tasks: Any, arrived: int) -> Any:
    waiting: queue.Queue[int] = queue.Queue()
    for k in range(arrived):
        waiting.put(k)
    return SimpleNamespace(_task_info=tasks, _rcvd_idx=3, _data_queue=waiting, _worker_result_queue=waiting)


@pytest.mark.parametrize(
    ("tasks", "arrived", "after", "ready"),
    [
        ({3: (0,)}, 1, {}, True),
        ({3: (0,)}, 0, {}, False),
        ({3: (0, "batch"), 4: (1,)}, 0, {4: (1,)}, True),  # came before its turn, and was kept
        ({3: (0,), 4: (1,)}, 1, {4: (1, "batch")}, False),  # what had come was another worker's
        ({3: (0,), 4: (1,)}, 2, {4: (1, "batch")}, True),
        (None, 1, {}, None),
    ],
)
def test_ready(tasks: Any, arrived: int, after: dict[int, Any], ready: bool | None) -> None:
    iterator = _iterator(tasks, arrived)
    asked = Asked(iterator)
    iterator._task_info = after
    assert asked.ready() is ready


def test_other_attributes_make_it_unknown() -> None:
    assert Asked(SimpleNamespace()).ready() is None
    assert Asked(SimpleNamespace(_task_info={3: (0,)})).ready() is None
    assert Asked(SimpleNamespace(_task_info={3: (0,)}, _data_queue=[1])).ready() is None


class Late(Dataset[torch.Tensor]):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.seconds)
        return torch.full((100,), float(index))


@pytest.fixture
def hooked(monkeypatch: pytest.MonkeyPatch) -> tuple[Loaders, list[str]]:
    """Of the class alone: ``monkeypatch`` takes the hooks out again."""
    base: Any = dataloader._BaseDataLoaderIter
    monkeypatch.setattr(base, "__init__", base.__init__)
    monkeypatch.setattr(base, "__next__", base.__next__)
    monkeypatch.setattr(base, "_next_index", base._next_index)
    state = ["settle"]
    loaders = Loaders(lambda file: file == __file__, lambda kind, key: None, lambda batch: None, lambda: state[0])
    loaders.on_dataloader(dataloader)
    return loaders, state


def _run(loader: DataLoader[torch.Tensor], wait_for_it: bool) -> None:
    iterator = iter(loader)
    for k in range(6):
        until = time.monotonic() + 60
        while k and wait_for_it and Asked(iterator)._arrived == 0 and time.monotonic() < until:
            time.sleep(0.005)
        next(iterator)


EVER = [{"start_ns": 0, "end_ns": 1 << 62}]


@pytest.mark.parametrize("slow", [True, False])
def test_a_worker_that_is_late_and_one_that_is_not(hooked: tuple[Loaders, list[str]], slow: bool) -> None:
    _run(DataLoader(Late(0.1 if slow else 0.0), batch_size=None, num_workers=1), not slow)
    (row,) = hooked[0].rows(EVER)
    assert row["num_workers"] == 1
    assert row["ready"][1:] == [not slow] * 5
    assert len(row["waits"]) == 6
    assert (row["plain_waits"], row["plain_late"]) == (5, 5 if slow else 0)
    assert (row["batch_tensors"], row["batch_bytes"]) == (1, 400)


def test_without_workers_nothing_is_said_of_readiness(hooked: tuple[Loaders, list[str]]) -> None:
    loaders, state = hooked
    for state[0] in ("settle", "window"):
        for _ in DataLoader(Late(0.01 if state[0] == "settle" else 0.03), batch_size=None):
            pass
    (row,) = loaders.rows(EVER)
    assert row["ready"] == []
    assert row["plain_waits"] == 5  # all but the first of the epoch that was not recorded
    assert row["plain_us"] >= 10_000
    assert len(row["waits"]) == 12


SLOW_S = 0.02


class Slow(Sampler[int]):
    """Draws in the loop's own thread."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __iter__(self) -> Iterator[int]:
        for k in range(12):
            time.sleep(self.seconds)
            yield k % 6


def _drawing(row: dict[str, Any]) -> list[float]:
    """Microseconds of each wait."""
    return [
        sum((d["end_ns"] - d["start_ns"]) / 1e3 for d in row["draws"] if w["start_ns"] <= d["start_ns"] < w["end_ns"])
        for w in row["waits"]
    ]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("batched", [False, True])
def test_what_the_sampler_takes_is_the_loops_whatever_workers_there_are(
    hooked: tuple[Loaders, list[str]], workers: int, batched: bool
) -> None:
    """With workers it draws four batches ahead, so that the last four waits have a look at its end, or none."""
    batch = 1 if batched else None
    for _ in DataLoader(Late(0.0), batch_size=batch, sampler=Slow(SLOW_S), num_workers=workers):
        pass
    (row,) = hooked[0].rows(EVER)
    drawn = _drawing(row)
    assert len(row["waits"]) == 12
    assert all(us >= SLOW_S * 1e6 for us in drawn[: 12 - 4 if workers else 12])
    if workers:
        assert min(drawn[12 - 4 + 1 :]) < SLOW_S * 1e6, "it is at its end"
    assert row["plain_drawn_us"] >= SLOW_S * 1e6
    for draw in row["draws"]:
        assert any(w["start_ns"] <= draw["start_ns"] <= draw["end_ns"] <= w["end_ns"] for w in row["waits"])


def test_what_a_worker_takes_to_fetch_is_no_drawing(hooked: tuple[Loaders, list[str]]) -> None:
    for workers in (0, 1):
        for _ in DataLoader(Late(SLOW_S), batch_size=None, num_workers=workers):
            pass
    for row in hooked[0].rows(EVER):
        assert row["plain_us"] >= SLOW_S * 1e6 / 2
        assert sorted(_drawing(row))[3] < SLOW_S * 1e6 / 2
        assert row["plain_drawn_us"] < SLOW_S * 1e6 / 2


def test_without_torchs_attribute_drawing_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    class Base:
        def __init__(self, loader: Any) -> None:
            self.left = iter(range(3))

        def __next__(self) -> int:
            return next(self.left)

    loaders = Loaders(lambda file: file == __file__, lambda kind, key: None, lambda batch: None, lambda: "settle")
    loaders.on_dataloader(SimpleNamespace(_BaseDataLoaderIter=Base))  # type: ignore[arg-type]
    it: Any = Base(SimpleNamespace(num_workers=0))
    for _ in range(3):
        it.__next__()
    (row,) = loaders.rows(EVER)
    assert row["draws"] is None
    assert row["plain_drawn_us"] is None
    assert len(row["waits"]) == 3


def test_a_sampler_that_fails_fails_as_ever(hooked: tuple[Loaders, list[str]]) -> None:
    class Broken(Sampler[int]):
        def __iter__(self) -> Iterator[int]:
            yield 0
            raise RuntimeError("no rows of class 3")

    it = iter(DataLoader(Late(0.0), batch_size=None, sampler=Broken()))
    next(it)
    with pytest.raises(RuntimeError, match="no rows of class 3"):
        next(it)
    (row,) = hooked[0].rows(EVER)
    assert len(row["waits"]) == 1
