"""The parts of attribution by themselves: matching in order, replays, the line timeline, splitting, source matching."""

from __future__ import annotations

from array import array
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribution_build import attributed
from ridgeline.attribution.align import align
from ridgeline.attribution.graphs import fits_module, replay_places
from ridgeline.attribution.nesting import Nest
from ridgeline.attribution.source_match import MatchedCall, matching_statement
from ridgeline.attribution.sources import SourceStore
from ridgeline.attribution.timeline import LineTimeline
from ridgeline.inductor.module import CallSite, WrapperModule
from ridgeline.sidecar import Timeline
from trace_build import call, frame, kernel, op


def same(a: str, b: str) -> bool:
    return a == b


def test_equal_sequences_match_one_to_one() -> None:
    found = align("abcab", "abcab", same)
    assert (found.places, found.complete) == ((0, 1, 2, 3, 4), True)


def test_what_was_not_recorded_leaves_the_others_in_place() -> None:
    assert align("ac", "abc", same).places == (0, 2)


def test_two_places_that_fit_equally_well_are_no_place() -> None:
    found = align("am", "amm", same)
    assert found.places == (0, -1)
    assert found.candidates[1] == (1, 2)


@given(st.text("abc", max_size=12), st.data())
def test_a_place_is_given_only_if_every_best_matching_gives_it(places: str, data: st.DataObject) -> None:
    kept = [i for i in range(len(places)) if data.draw(st.booleans())]
    found = align([places[i] for i in kept], list(places), same)
    assert all(place in (-1, true) or places[place] == places[true] for place, true in zip(found.places, kept))
    # No place that was given contradicts the order.
    given_places = [p for p in found.places if p >= 0]
    assert given_places == sorted(set(given_places))
    for place, options, true in zip(found.places, found.candidates, kept):
        assert true in options
        assert place in (-1, true), "with another best matching at hand no place may be claimed"


def module(*callees: str) -> WrapperModule:
    calls = [
        CallSite(line=10 + i, callee=c, kind="extern" if c.startswith("extern") else "kernel", function="call")
        for i, c in enumerate(callees)
    ]
    return WrapperModule(path="m.py", aot_id="0_forward", calls=calls)


def test_a_replay_is_anchored_by_generated_kernels() -> None:
    m = module("triton_a", "extern_kernels.mm", "triton_b", "extern_kernels.addmm", "triton_a")
    names = ["triton_a", "nvjet_x", "triton_b", "Memset (Device)", "nvjet_y", "splitKreduce_kernel", "triton_a"]
    assert replay_places(names, m) == (0, 1, 2, 3, 3, 3, 4)
    assert fits_module(names, m)
    assert not fits_module([*names, "triton_stranger"], m)


def test_two_library_calls_in_one_gap_need_two_kernels() -> None:
    m = module("triton_a", "extern_kernels.mm", "extern_kernels.mm", "triton_b")
    assert replay_places(["triton_a", "Memset (Device)", "g1", "g2", "triton_b"], m) == (0, 1, 1, 2, 3)
    assert replay_places(["triton_a", "g1", "g2", "g3", "triton_b"], m) == (0, -1, -1, -1, 3)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20)), min_size=1, max_size=25), st.integers(0, 60))
def test_innermost_interval(spans: list[tuple[int, int]], moment: int) -> None:
    nested = []
    for start, dur in spans:  # keep those that nest with all kept before
        end = start + dur
        if all(e <= start or end <= s or (s <= start and end <= e) or (start <= s and e <= end) for s, e in nested):
            nested.append((start, end))
    start = np.array([s for s, _ in nested], dtype=float)
    dur = np.array([e - s for s, e in nested], dtype=float)
    nest = Nest(start, dur, np.zeros(len(nested), dtype=np.int64))
    found = int(nest.innermost(np.zeros(1, dtype=np.int64), np.array([float(moment)]))[0])
    around = [e - s for s, e in nested if s <= moment < e]
    if around:
        assert found >= 0
        assert dur[found] <= min(around)


def timeline(source: str, events: list[tuple[int, int, int]], folder: Path, codes: list[list[object]]) -> LineTimeline:
    (folder / "p.py").write_text(source)
    data = array("q", [t for t, _, _ in events]).tobytes()
    data += array("i", [line for _, line, _ in events]).tobytes() + array("i", [c for _, _, c in events]).tobytes()
    return LineTimeline(Timeline(file="t", codes=codes, threads=[[7, 0, len(events)]]), data, SourceStore())


RECURSIVE = "def f(n):\n    if n:\n        return f(n - 1) + n\n    return n\n\n\ndef main():\n    f(2)\n"


@pytest.mark.parametrize("marked", [True, False])
def test_recursion_is_told_from_a_loop(tmp_path: Path, marked: bool) -> None:
    codes = [[str(tmp_path / "p.py"), 7, "main"], [str(tmp_path / "p.py"), 1, "f"]]
    enter = [(0, -1, 1)] if marked else []
    steps = [(0, -1, 0)] if marked else []
    steps += [(0, 8, 0), *enter, (0, 2, 1), (0, 3, 1), *enter, (0, 2, 1), (0, 4, 1), (0, 0, 1)]
    events = [(10 * i, line, code) for i, (_, line, code) in enumerate(steps)]
    lines = timeline(RECURSIVE, events, tmp_path, codes)
    after = lines.ref(int(lines.at(np.array([7]), np.array([10 * len(events)]))[0]))
    assert after is not None
    assert (after.line, [f.line for f in after.stack]) == (3, [8, 3]), "back in the outer call"


def test_a_loop_is_no_recursion(tmp_path: Path) -> None:
    codes = [[str(tmp_path / "p.py"), 1, "f"]]
    source = "def f(x):\n    while x:\n        x = x - 1\n"
    events = [(10 * i, line, 0) for i, line in enumerate((2, 3, 2, 3, 2, 3))]
    lines = timeline(source, events, tmp_path, codes)
    ref = lines.ref(int(lines.at(np.array([7]), np.array([55]))[0]))
    assert ref is not None
    assert [f.line for f in ref.stack] == [3]


LOOP = "def main(n):\n    setup()\n    for k in range(n):\n        for j in range(3):\n            work()\n"


def test_the_rounds_of_the_outermost_loop(tmp_path: Path) -> None:
    """Six rounds of 100 ns, each with three of an inner loop; the window ends in the middle of the seventh."""
    codes = [[str(tmp_path / "p.py"), 1, "main"]]
    events = [(0, 2, 0)]
    for k in range(7):
        events.append((100 + 100 * k, 3, 0))
        events += [(110 + 100 * k + 20 * j + part, (4, 5)[part // 10], 0) for j in range(3) for part in (0, 10)]
    lines = timeline(LOOP, events, tmp_path, codes)
    found = lines.rounds(7, 100, 750)
    assert found is not None
    ref, began = found
    assert ref.line == 3
    assert began.tolist() == [100, 200, 300, 400, 500, 600, 700]
    assert lines.rounds(7, 100, 400) is None, "four rounds say little"
    assert lines.rounds(7, -2000, 750) is None, "the loop is a small part of it"
    assert lines.rounds(8, 100, 750) is None, "another thread"


def test_the_head_of_a_function_stands_for_its_call(tmp_path: Path) -> None:
    codes = [[str(tmp_path / "p.py"), 7, "main"], [str(tmp_path / "p.py"), 1, "f"]]
    lines = timeline(RECURSIVE, [(0, 8, 0), (10, 1, 1)], tmp_path, codes)
    ref = lines.ref(int(lines.at(np.array([7]), np.array([15]))[0]))
    assert ref is not None
    assert ref.line == 8, "a compiled frame stays at its head: the statement is the call"


def test_a_torn_timeline_is_left_out(tmp_path: Path) -> None:
    lines = LineTimeline(Timeline(file="t", codes=[], threads=[[7, 0, 1000], [8, -5, 2]]), b"\0" * 16, SourceStore())
    assert lines.threads == []


SOURCE = """
import torch

def f(self, x, act):
    a = torch.sin(x)
    b = torch.cos(a) + torch.cos(x)
    c = act(b)
    return x - c

class M(torch.nn.Module):
    def __init__(self):
        self.fc = torch.nn.Linear(3, 3)
        self.out, self.up = torch.nn.Conv2d(1, 1, 1), torch.nn.Linear(3, 3)

    def forward(self, x):
        y = self.fc(x)
        y = self.out(y)
        return self.up(y) * 2

def clear(x):
    model = M().to("cpu")
    total = 0
    out = model(x)
    total += out.item()
    for y in loader:
        z = x + y
    return torch.sin(z)

def launch(x):
    kernel[(1,)](x)
"""


@pytest.mark.parametrize(
    ("function", "kind", "name", "line"),
    [
        ("f", "name", "sin", None),  # act may be torch.sin
        ("f", "op", "sub", 8),
        ("f", "op", "add", 6),
        ("f", "op", "mul", None),
        ("forward", "module", "Conv2d", 17),
        ("forward", "module", "Linear", None),  # two of them
        ("forward", "op", "mul", 18),
        ("clear", "name", "sin", 27),
        ("clear", "module", "M", 23),
        ("clear", "op", "add", 26),  # the number on line 24 runs no op
        ("clear", "name", "__next__", 25),
        ("clear", "name", "cosh", None),
        ("launch", "kernel", "kernel", 30),
    ],
)
def test_only_one_fitting_statement_is_claimed(
    tmp_path: Path, function: str, kind: str, name: str, line: int | None
) -> None:
    path = tmp_path / "s.py"
    path.write_text(SOURCE)
    store = SourceStore()
    found = next(f for f in store.functions(str(path)) if f.name == function)
    assert matching_statement(found, MatchedCall(kind=kind, name=name), store.class_of(str(path), found)) == line  # type: ignore[arg-type]


def test_a_launch_is_split_equally_and_shown_unsplit(tmp_path: Path) -> None:
    source = tmp_path / "m.py"
    source.write_text("def f(x):\n    return x.sin()\n\n\ndef g(x):\n    return x.cos()\n")
    events = []
    for i, (line, name, builtin) in enumerate(((1, "f", "sin"), (5, "g", "cos"))):
        t = 100 * i
        events += [
            frame(t - 3, 40, "run.py(1): main", id=10 * i + 1),
            frame(t - 2, 30, f"{source}({line}): {name}", id=10 * i + 2, parent=10 * i + 1),
            frame(t - 1, 20, f"<built-in method {builtin} of Tensor object at 0x1>", id=10 * i + 3, parent=10 * i + 2),
            op(t, 10, f"aten::{builtin}", ext=i + 1),
            call(t + 2, 2, corr=i + 1, ext=i + 1),
            kernel(t + 40, 30, "k", corr=i + 1, ext=i + 1),
        ]
    one = attributed(tmp_path, *events)
    both = (*one.refs(0), *one.refs(1))
    one.result.sources.append(both)
    one.result.source[:] = len(one.result.sources) - 1
    lines, rest = one.lines()
    assert [(line.line, line.device_us, line.unsplit_us, line.shared_with) for line in lines] == [
        (2, 30.0, 60.0, [6]),
        (6, 30.0, 60.0, [2]),
    ]
    assert rest.device_us == 0


def test_a_custom_backward_speaks_for_itself(tmp_path: Path) -> None:
    source = tmp_path / "m.py"
    source.write_text("def backward(ctx, grad):\n    return grad.sinh()\n\n\ndef forward(x):\n    return x.sin()\n")
    one = attributed(
        tmp_path,
        frame(-10, 90, f"{source}(5): forward", id=1),
        frame(-1, 20, "<built-in method sin of Tensor object at 0x1>", id=2, parent=1),
        op(0, 10, "aten::sin", **{"Sequence number": 3, "Fwd thread id": 0}),
        op(200, 90, "MyFnBackward", tid=2, **{"Sequence number": 3, "Fwd thread id": 1}),
        frame(205, 80, f"{source}(1): backward", id=3, tid=2),
        frame(206, 40, "<built-in method sinh of Tensor object at 0x1>", id=4, parent=3, tid=2),
        op(210, 30, "aten::sinh", tid=2),
    )
    lines = {one.symbol(r): [ref.line for ref in one.refs(r)] for r in range(3)}
    assert lines["aten::sinh"] == [2]
    assert lines["MyFnBackward"] == [6]
