"""The user-line timeline against what the program is known to do, and its packed form."""

from __future__ import annotations

import copy
import importlib
import struct
import sys
import threading
from array import array
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest

from ridgeline import sidecar
from ridgeline.agent.timeline import LIBRARY, Recorded, Timeline, create
from ridgeline.attribution.sources import SourceStore
from ridgeline.attribution.timeline import LineTimeline

HERE = __file__


def work(values: list[int]) -> int:
    total = 0
    for value in values:
        total += helper(value)
    return total


def helper(value: int) -> int:
    return value + 1


def lines_of(recorded: Recorded, function: str) -> list[int]:
    numbers = {index for index, code in enumerate(recorded.codes) if str(code[2]).endswith(function)}
    found = []
    for _, buffer in recorded.threads:
        for word in buffer[1::2]:
            if word & 0xFFFFFFFF in numbers and word >> 32 > 0:
                found.append(word >> 32)
    return found


@pytest.fixture
def timeline() -> Timeline:
    return create(lambda file: file == HERE)


def test_lines_come_in_the_order_they_ran(timeline: Timeline) -> None:
    timeline.start()
    work([1, 2])
    timeline.stop()
    recorded = timeline.take()
    first = work.__code__.co_firstlineno
    assert lines_of(recorded, "work")[:6] == [first + 1, first + 2, first + 3, first + 2, first + 3, first + 2]
    assert lines_of(recorded, "helper") == [helper.__code__.co_firstlineno + 1] * 2


def test_an_entry_is_an_event_of_line_minus_one_and_a_return_of_line_zero(timeline: Timeline) -> None:
    timeline.start()
    helper(1)
    timeline.stop()
    recorded = timeline.take()
    number = next(i for i, code in enumerate(recorded.codes) if code[2] == "helper")
    events = [word >> 32 for _, buffer in recorded.threads for word in buffer[1::2] if word & 0xFFFFFFFF == number]
    assert events == [-1, helper.__code__.co_firstlineno + 1, 0]


def test_an_exception_that_leaves_a_frame_counts_as_its_return(timeline: Timeline) -> None:
    def failing() -> None:
        raise ValueError

    timeline.start()
    with pytest.raises(ValueError):
        failing()
    timeline.stop()
    recorded = timeline.take()
    number = next(i for i, code in enumerate(recorded.codes) if str(code[2]).endswith("failing"))
    assert [w >> 32 for _, b in recorded.threads for w in b[1::2] if w & 0xFFFFFFFF == number][-1] == 0


def test_frames_already_on_the_stack_are_entered_at_their_current_line(timeline: Timeline) -> None:
    timeline.start()
    line = sys._getframe().f_lineno - 1
    timeline.stop()
    assert lines_of(timeline.take(), "current_line")[0] == line


def test_library_code_leaves_no_events(timeline: Timeline) -> None:
    import json

    timeline.start()
    json.dumps({"a": [1, 2, 3]}, indent=1)
    timeline.stop()
    assert timeline.take().files() == [HERE]


def test_a_thread_started_meanwhile_is_recorded_under_its_own_id(timeline: Timeline) -> None:
    if sys.version_info < (3, 12) and threading._trace_hook is not None:  # type: ignore[attr-defined]
        pytest.skip("another tool traces new threads here")
    timeline.prepare()
    natives: list[int] = []

    def in_thread() -> None:
        natives.append(threading.get_native_id())
        work([1])

    try:
        timeline.start()
        thread = threading.Thread(target=in_thread)
        thread.start()
        thread.join()
        timeline.stop()
    finally:
        threading.settrace(None)  # type: ignore[arg-type]
    recorded = timeline.take()
    assert natives[0] in [native for native, _ in recorded.threads]
    assert natives[0] != threading.get_native_id()


def test_a_thread_that_is_in_its_loop_already_is_recorded_with_its_lines(timeline: Timeline) -> None:
    """Two threads that train: the loop of the one in which the window does not open was entered long before."""
    if sys.version_info < (3, 12) and threading._trace_hook is not None:  # type: ignore[attr-defined]
        pytest.skip("another tool traces new threads here")
    timeline.prepare()
    inside, go, done = threading.Event(), threading.Event(), threading.Event()
    natives: list[int] = []

    def training() -> int:
        natives.append(threading.get_native_id())
        inside.set()
        go.wait()
        total = helper(1)
        total += helper(2)
        total += 3
        done.set()
        return total

    try:
        thread = threading.Thread(target=training)
        thread.start()
        inside.wait()
        timeline.start()
        go.set()
        done.wait()
        thread.join()
        timeline.stop()
    finally:
        threading.settrace(None)  # type: ignore[arg-type]
    first = training.__code__.co_firstlineno
    seen = lines_of(timeline.take(), "training")
    assert set(range(first + 5, first + 9)) <= set(seen)


def test_threads_one_after_the_other_have_buffers_of_their_own(timeline: Timeline) -> None:
    """Python gives the ident of an ended thread to the next: by ident they would share a buffer, and all but one no lines."""
    if sys.version_info < (3, 12) and threading._trace_hook is not None:  # type: ignore[attr-defined]
        pytest.skip("another tool traces new threads here")
    timeline.prepare()
    natives: list[int] = []
    idents: set[int] = set()

    def in_thread(rounds: int) -> None:
        natives.append(threading.get_native_id())
        idents.add(threading.get_ident())
        work(list(range(rounds)))

    try:
        timeline.start()
        for rounds in (1, 2, 3, 4):
            thread = threading.Thread(target=in_thread, args=(rounds,))
            thread.start()
            thread.join()
        timeline.stop()
    finally:
        threading.settrace(None)  # type: ignore[arg-type]
    recorded = timeline.take()
    helpers = {index for index, code in enumerate(recorded.codes) if code[2] == "helper"}
    line = helper.__code__.co_firstlineno + 1
    counts = {
        native: sum(word >> 32 == line and word & 0xFFFFFFFF in helpers for word in buffer[1::2])
        for native, buffer in recorded.threads
    }
    assert len(idents) < len(natives), "idents were not reused: the test shows nothing"
    assert [counts[native] for native in natives] == [1, 2, 3, 4]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="sys.monitoring lives beside a tracer")
def test_another_tracer_is_left_alone_and_that_is_said(timeline: Timeline) -> None:
    def theirs(frame: FrameType, event: str, arg: Any) -> None:
        return None

    before = sys.gettrace()
    sys.settrace(theirs)
    try:
        timeline.start()
        assert sys.gettrace() is theirs
        timeline.stop()
        assert sys.gettrace() is theirs
    finally:
        sys.settrace(before)
    assert timeline.blocked is not None
    assert "another tracer" in timeline.blocked


def test_the_budget_ends_the_recording_and_not_the_program(timeline: Timeline) -> None:
    timeline.budget = 10
    timeline.start()
    result = work(list(range(1000)))
    timeline.stop()
    assert result == sum(range(1001))
    assert timeline.exhausted
    recorded = timeline.take()
    assert sum(len(buffer) // 2 for _, buffer in recorded.threads) <= 20
    assert stacks_of(recorded)[-1] == [], "what comes after is not known, and not the last statement's"


def test_a_budget_that_is_raised_in_time_is_that_of_the_running_recording(timeline: Timeline) -> None:
    timeline.budget = 100
    timeline.start()
    work([1])
    timeline.budget = 10_000
    work(list(range(1000)))
    timeline.stop()
    assert len(lines_of(timeline.take(), "helper")) == 1001


def score(value: int) -> int:
    return -value


def slow_score(value: int) -> int:
    return sum(range(2000 + value % 2))


def rank(count: int, key: Callable[[int], int]) -> int:
    rows = sorted(range(count), key=key)
    return rows[0]


@pytest.mark.parametrize(("key", "left_out"), [(score, True), (slow_score, False)])
def test_what_is_called_all_the_time_and_is_quick_is_left_out_after_a_while(
    timeline: Timeline, monkeypatch: pytest.MonkeyPatch, key: Callable[[int], int], left_out: bool
) -> None:
    """Its caller's statement is enough, and goes on being known. What is as slow as an operator may be one."""
    for name in ("timeline", "timeline_settrace"):
        module = importlib.import_module(f"ridgeline.agent.{name}")
        monkeypatch.setattr(module, "CHECK", 3000)
    timeline.start()
    assert rank(20_000 if left_out else 4_000, key) == (19_999 if left_out else 0)
    work([1])
    timeline.stop()
    recorded = timeline.take()
    events = sum(len(buffer) // 2 for _, buffer in recorded.threads)
    stacks = stacks_of(recorded)
    assert (events < 4000) == left_out
    inside = [stack[-1] for stack in stacks if stack and stack[-1][0] == "rank"]
    assert inside[-1] == ("rank", 2), "the function's own lines are still there"
    assert max(len(stack) for stack in stacks) == 3
    assert [stack[-1][0] for stack in stacks if len(stack) == 3][-1] == "helper"
    timeline.start()
    rank(5, key)
    timeline.stop()
    assert len(lines_of(timeline.take(), key.__name__)) == 5, "a later recording begins anew"


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="there library code costs nothing, and is not seen")
def test_calls_of_a_library_are_counted_where_they_were_made(timeline: Timeline) -> None:
    def copies(times: int) -> int:
        for _ in range(times):
            copy.copy(timeline)
        return times

    timeline.start()
    copies(3)
    work([1])
    timeline.stop()
    recorded = timeline.take()
    chunks, rows = recorded.pack()
    read = LineTimeline(sidecar.Timeline(file="", codes=recorded.codes, threads=rows), b"".join(chunks), SourceStore())
    events = read.events_of(threading.get_native_id())
    assert events is not None
    _, nodes, calls = events
    made = [read.stack(int(nodes[k - 1]))[-1][2] for k in np.flatnonzero(calls)]
    assert [name.rpartition(".")[2] for name in made] == ["copies"] * 3
    assert min(calls[calls > 0]) >= 1
    assert read.events == len(nodes)


def descend(depth: int) -> int:
    if depth:
        return descend(depth - 1) + 1
    return HERE.count("never")


def numbers() -> Iterator[int]:
    yield 1
    yield 2
    yield 3


def consume(stop: int) -> int:
    total = 0
    for number in numbers():
        total += helper(number)
        if number == stop:
            break
    return total


def stacks_of(recorded: Recorded) -> list[list[tuple[str, int]]]:
    """What attribution reads: after every event of this thread, (function, line relative to its first) outermost first."""
    chunks, rows = recorded.pack()
    own = [row for row in rows if row[0] == threading.get_native_id()]
    read = LineTimeline(sidecar.Timeline(file="", codes=recorded.codes, threads=own), b"".join(chunks), SourceStore())
    count = own[0][2]
    times = np.frombuffer(b"".join(chunks), dtype="<i8", count=count, offset=own[0][1])
    nodes = read.at(np.full(count, own[0][0]), times)
    first = {str(code[2]): int(code[1]) for code in recorded.codes}
    return [[(name, line - first[name]) for _, line, name in read.stack(int(node))] for node in nodes]


def test_recursion_is_told_from_a_loop(timeline: Timeline) -> None:
    timeline.start()
    descend(3)
    timeline.stop()
    stacks = stacks_of(timeline.take())
    inside = [[line for name, line in stack if name == "descend"] for stack in stacks]
    assert [2, 2, 2, 3] in inside
    assert max(map(len, inside)) == 4


def test_a_generator_is_inside_its_consumer_and_left_with_it(timeline: Timeline) -> None:
    timeline.start()
    consume(2)
    consume(0)
    helper(1)
    timeline.stop()
    stacks = stacks_of(timeline.take())
    tails = [stack[1:] for stack in stacks]
    assert [("consume", 2), ("numbers", 2)] in tails
    assert [("consume", 3), ("helper", 1)] in tails
    assert [("helper", 1)] in tails
    assert all(sum(name == "consume" for name, _ in tail) <= 1 for tail in tails)
    assert all(stack[0][0].startswith("test_a_generator") for stack in stacks if len(stack) > 1)


def test_what_comes_after_a_pause_stands_on_the_frames_of_then(timeline: Timeline) -> None:
    timeline.start()
    work([1])
    timeline.stop()
    timeline.start()
    helper(1)
    timeline.stop()
    stacks = stacks_of(timeline.take())
    assert {len(stack) for stack in stacks if stack and stack[-1][0] == "helper"} == {2, 3}
    assert all(sum(name.startswith("test_what_comes") for name, _ in stack) <= 1 for stack in stacks)


def test_packing_gives_times_lines_and_codes_thread_after_thread() -> None:
    recorded = Recorded(
        [["a.py", 1, "f"], ["a.py", 9, "g"]],
        [(7, array("q", [100, 5 << 32 | 0, 200, 0 << 32 | 1])), (8, array("q", [300, 6 << 32 | 1]))],
    )
    chunks, rows = recorded.pack()
    data = b"".join(chunks)
    assert rows == [[7, 0, 2], [8, 32, 1]]
    assert struct.unpack("<2q2i2i", data[:32]) == (100, 200, 5, 0, 0, 1)
    assert struct.unpack("<qii", data[32:]) == (300, 6, 1)


def test_merging_renumbers_the_codes() -> None:
    first = Recorded([["a.py", 1, "f"]], [(7, array("q", [1, 5 << 32]))])
    first.merge(Recorded([["a.py", 9, "g"], ["a.py", 1, "f"]], [(7, array("q", [2, 6 << 32, 3, 7 << 32 | 1]))]))
    assert first.codes == [["a.py", 1, "f"], ["a.py", 9, "g"]]
    assert list(first.threads[0][1]) == [1, 5 << 32, 2, 6 << 32 | 1, 3, 7 << 32]


def test_merging_keeps_what_is_no_code() -> None:
    first = Recorded([["a.py", 1, "f"]], [(1, array("q", [10, 1 << 32]))])
    first.merge(Recorded([["b.py", 1, "g"]], [(1, array("q", [20, 7 << 32 | LIBRARY, 30, 2 << 32]))]))
    words = first.threads[0][1][1::2]
    assert [(word >> 32, word & 0xFFFFFFFF) for word in words] == [(1, 0), (7, LIBRARY), (2, 1)]
