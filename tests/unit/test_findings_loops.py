"""small-kernels: what the program's text says of its loops, and what of a loop's time is no computing."""

from __future__ import annotations

import ast
import textwrap

import pytest

from builders import TraceBuilder
from ridgeline.findings import find, overhead, part_loops, repeated
from ridgeline.findings.facts import Facts
from ridgeline.findings.loop_text import Loop, Loops
from ridgeline.findings.rules import small_kernels
from ridgeline.profile import Finding, Frame


def _loops(text: str) -> list[Loop]:
    return Loops(ast.parse(textwrap.dedent(text))).all


def _found(b: TraceBuilder, text: str) -> list[Finding]:
    return [f for f in find(b.context(sources={"net.py": textwrap.dedent(text)})) if f.code == "small-kernels"]


@pytest.mark.parametrize(
    ("body", "carried"),
    [
        ("alpha = f(alpha[:, :, None] + w) + x[t]", {"alpha"}),
        ("state = decay * state + x[:, t]", {"state"}),
        ("h = h + f(h)", {"h"}),
        ("self.h = f(self.h, x[t])", {"self.h"}),
        ("prev, cur = cur, step(cur, prev)", {"prev", "cur"}),
        ("delta = x[t] - last\n    out[t] = last = delta", {"last"}),
        ("out[t] = f(out[t - 1])", {"out"}),
        ("states.append(f(states[-1]))", {"states"}),
        ("buffer.mul_(0.9).add_(x[t])", {"buffer"}),
        ("for k in range(3):\n        h = f(h)", {"h"}),
        ("if t:\n        h = f(h)", {"h"}),
        ("total = total + f(x[t])", set()),
        ("total += f(x[t])", set()),
        ("loss = loss * f(x[t])", set()),
        ("best = torch.maximum(best, f(x[t]))", set()),
        ("out.append(f(x[t]))", set()),
        ("out[t] = f(x[t])", set()),
        ("out[t] = out[t] * x[t]", set()),
        ("total[t] += f(x[t])", set()),
        ("h = x[t]\n    h = f(h)", set()),
        ("n = n + 1\n    y = f(n)", set()),
        ("hi = lo + sizes[t]\n    out.append(f(x[lo:hi]))\n    lo = hi", set()),
        ("best = order[0]\n    order = order[1:][f(x[order]) < 1]", set()),
        ("torch.nn.utils.clip_grad_norm_(p)", set()),
        ("out.append([f(row) for row in x[t]])", set()),
    ],
)
def test_what_a_round_takes_from_the_one_before(body: str, carried: set[str]) -> None:
    text = f"for t in range(n):\n    {body}\n"
    assert set(_loops(text)[0].carried) == carried


def test_statements_that_need_the_round_before() -> None:
    loop = _loops(
        """
        for t in reversed(range(n)):
            delta = rewards[t] - values[t]
            last = delta + 0.9 * last
            both = last * 2
            out.append(delta)
        """
    )[0]
    assert loop.dependent == {4, 5}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[f(t, m) for t, m in zip(times, marks)]", True),
        ("[f(row) for row in x.unbind(0)]", True),
        ("[f(row) for i, row in enumerate(x)]", True),
        ("[f(x[i]) for i in range(n)]", True),
        ("[f(x[i, 1:]) for i in range(n)]", True),
        ("[f(part) for part in x.split(8)]", False),
        ("[f(part) for part in zip(x.chunk(8), y.chunk(8))]", False),
        ("[f(x[i : i + 8]) for i in range(0, n, 8)]", False),
        ("[f(x[:, i]) for i in range(n)]", False),
        ("[head(x) for head in heads]", False),
        ("[heads[i](x[i]) for i in range(n)]", False),
        ("[f(x) for _ in range(n)]", False),
    ],
)
def test_what_goes_over_the_parts_of_tensors(text: str, expected: bool) -> None:
    assert _loops(text)[0].over_parts == expected


@pytest.mark.parametrize("call", ["loss.backward()", "opt.step()"])
def test_a_loop_that_trains_is_the_programs_own(call: str) -> None:
    assert _loops(f"for x, y in zip(xs, ys):\n    loss = f(x, y)\n    {call}\n")[0].is_training


TEXT = """
def forward(self, xs):
    return torch.stack([self.one(x) for x in xs])

def one(self, x):
    a = x.exp()
    b = x.log()
    return a + b
"""


BETWEEN_US = 10.0
"""Of Python, beside each operation of ``_parts``."""


def _parts(
    rounds: int, *, time: float = 4.0, unbind: bool = True, lines: tuple[int, ...] = (6, 6, 7, 7, 8, 8)
) -> TraceBuilder:
    """Operations on these lines of a function that a comprehension calls once a round, of shapes that occur once a step."""
    b = TraceBuilder()
    for k in range(3):
        t = k * 20_000.0
        b.step(t, 20_000.0)
        b.line(t, t + 15_000, "net.py", 3, "return torch.stack([self.one(x) for x in xs])")
        if unbind:
            b.op("aten::unbind", t, 5.0, dims=[[rounds, 8]], types=["float"])
        for i in range(rounds):
            for j, line in enumerate(lines):
                u = t + 20 + (len(lines) * i + j) * (time + BETWEEN_US)
                b.line(u - 1, u + time + 1, "net.py", line)
                frames = [("forward", 3), ("one", line)]
                b._lines[-1][3].stack.extend(Frame(file="net.py", line=n, function=name) for name, n in frames)
                b.op(f"aten::op{j}", u, time, dims=[[8 + i]], types=["float"])
        b.line(t + 15_000, t + 20_000, "net.py", 99)
        b.op("aten::mm", t + 15_500, 4_000.0, dims=[[64, 64], [64, 64]], types=["float", "float"])
    return b


@pytest.mark.parametrize(("rounds", "expected"), [(part_loops.ROUNDS - 1, 0), (part_loops.ROUNDS, 1)])
def test_rounds_that_the_text_tells_at_the_edge(rounds: int, expected: int) -> None:
    assert len(_found(_parts(rounds), TEXT)) == expected


@pytest.mark.parametrize(("calls", "expected"), [(part_loops.CALLS_PER_STEP - 4, 0), (part_loops.CALLS_PER_STEP, 1)])
def test_calls_of_a_loop_that_the_text_tells_at_the_edge(calls: int, expected: int) -> None:
    assert len(_found(_parts(calls // 4, lines=(6, 6, 7, 7)), TEXT)) == expected


def test_without_a_tensor_that_it_goes_over_the_text_alone_is_nothing() -> None:
    assert not _found(_parts(16, unbind=False), TEXT)
    assert not _found(_parts(16), "")


def test_the_statement_that_calls_speaks_for_what_lies_in_several() -> None:
    assert [f.line for f in _found(_parts(16), TEXT)] == [3]


@pytest.mark.parametrize(("lines", "speaks"), [((6, 6, 8, 8, 8), 8), ((6, 6, 7, 7, 8, 8, 8), 3)])
def test_a_statement_that_is_most_of_a_loop_speaks_itself(lines: tuple[int, ...], speaks: int) -> None:
    """Fifty rounds, so that the recording tells each statement by itself."""
    assert [f.line for f in _found(_parts(50, lines=lines), TEXT)] == [speaks]
    assert [f.line for f in _found(_parts(50, lines=(6, 6, 8, 8)), "")] == [6], "of two alike the first"
    assert repeated.MAIN == 0.5


@pytest.mark.parametrize(("more", "expected"), [(-1.0, 1), (1.0, 0)])
def test_a_loop_whose_time_is_computing_is_none(more: float, expected: int) -> None:
    """As much computing as there is besides: what an operation costs anyway, and Python."""
    assert small_kernels.OVERHEAD == 0.5
    found = _found(_parts(16, time=2 * overhead.OP_US + BETWEEN_US + more), TEXT)
    assert len(found) == expected


def test_what_a_loop_computes_is_not_saved() -> None:
    small, large = (_found(_parts(16, time=time), TEXT)[0] for time in (overhead.OP_US, 2 * overhead.OP_US))
    assert small.saving_us is not None
    assert large.saving_us == pytest.approx(small.saving_us, rel=0.01)


RECURRENT = """
def forward(x, h):
    for t in range(x.size(1)):
        h = (h * 0.9 + x[:, t]).tanh()
    return h
"""


def _recurrent(step: float, each: str = "aten::tanh") -> TraceBuilder:
    b = TraceBuilder()
    for k in range(3):
        t = k * step
        b.step(t, step)
        b.line(t, t + 1_000, "net.py", 4, "h = (h * 0.9 + x[:, t]).tanh()")
        for i in range(50):
            b.op("aten::select", t + 20 * i, 2.0, dims=[[64, 64]], types=["float"], concrete=["", "0", str(i)])
            b.op(each, t + 20 * i + 4, 4.0, dims=[[64]], types=["float"])
        b.line(t + 1_000, t + step, "net.py", 5)
        for i in range(20):
            b.op("aten::exp", t + 1_005 + 4 * i, 2.0, dims=[[64]], types=["float"])
        b.op("aten::mm", t + 1_100, step - 1_200, dims=[[64, 64], [64, 64]], types=["float", "float"])
    return b


@pytest.mark.parametrize(("pct", "severity"), [(-0.2, "hint"), (0.2, "information")])
def test_rounds_that_wait_for_one_another_promise_what_compiling_gives(pct: float, severity: str) -> None:
    took = 988.0 * (1.0 - 1.0 / small_kernels.COMPILED_SPEEDUP)
    step = 100.0 * took / (small_kernels.RECURRENT_LOUD_PCT + pct)
    found = _found(_recurrent(step), RECURRENT)
    assert [(f.line, f.severity) for f in found] == [(4, severity)]
    assert "Each round needs the one before" in found[0].message
    assert "whole tensors" not in found[0].message
    assert found[0].saving_us == pytest.approx(took, rel=0.01)
    plain = _found(_recurrent(step), RECURRENT.replace("h * 0.9", "1"))
    assert "Each round" not in plain[0].message
    assert (plain[0].saving_us or 0) > took


def test_a_recurrence_of_products_gains_less_by_compiling() -> None:
    (light,), (heavy,) = (_found(_recurrent(6_000.0, each), RECURRENT) for each in ("aten::tanh", "aten::mm"))
    assert (heavy.saving_us or 0) / (light.saving_us or 1) == pytest.approx(
        (1 - 1 / small_kernels.COMPILED_PRODUCTS) / (1 - 1 / small_kernels.COMPILED_SPEEDUP), rel=0.01
    )


def test_samples_each_with_a_recurrence_can_be_computed_at_once() -> None:
    text = RECURRENT.replace("    for t", "    for h in zip(hs):\n     for t").replace("        h =", "      h =")
    around = Loops(ast.parse(text)).around(5)
    assert [(set(x.carried), x.over_parts) for x in around] == [({"h"}, False), (set(), True)]


def test_an_operation_that_comes_several_times_a_round_makes_one_loop() -> None:
    """Close together within a round, far from those of the next."""
    b = TraceBuilder()
    for k in range(3):
        t = k * 20_000.0
        b.step(t, 20_000.0)
        for i in range(24):
            u = t + 400 * i
            b.line(u, u + 50, "net.py", 7, "a * b * exp(c) * d")
            for j in range(4):
                b.op("aten::mul", u + 10 * j, 5.0, dims=[[8]], types=["float"])
            b.line(u + 50, u + 400, "net.py", 8)
            for j in range(30):
                b.op("aten::exp", u + 60 + 10 * j, 5.0, dims=[[8 + i, j]], types=["float"])
    assert [other["line"] for f in _found(b, "") for other in f.evidence["related"]] == [7]


@pytest.mark.parametrize(("child", "expected"), [("aten::fill_", 1), ("aten::mm", 0)])
def test_a_sum_that_clears_its_result_computes_itself(child: str, expected: int) -> None:
    b = TraceBuilder()
    for k in range(3):
        t = k * 2_000.0
        b.step(t, 2_000.0)
        b.line(t, t + 2_000, "net.py", 7, "[x[b, lo:hi].sum(0) for b, lo, hi in words]")
        for i in range(60):
            b.op("aten::sum", t + 20 * i, 5.0, dims=[[8, 64]], types=["float"])
            b.op(child, t + 20 * i + 1, 0.3, dims=[[64]], types=["float"])
    assert len(_found(b, "")) == expected


def test_a_step_that_holds_the_spans_of_its_closure_is_one() -> None:
    """L-BFGS: gradients are zeroed, and asked for, several times within one step."""
    b = TraceBuilder()
    b.step(0.0, 1_000.0)
    b.range("Optimizer.step#LBFGS.step", 100.0, 800.0)
    for k in range(3):
        b.range("Optimizer.zero_grad#LBFGS.zero_grad", 200.0 + 100.0 * k, 10.0)
    facts = Facts(b.context())
    within = [t for t in (50.0, 150.0, 205.0, 250.0, 415.0, 899.0, 900.0) if facts.in_optimizer(1, t)]
    assert within == [150.0, 205.0, 250.0, 415.0, 899.0]
    assert not facts.in_optimizer(2, 250.0)


@pytest.mark.parametrize(("within", "expected"), [("aten::gru", 0), ("aten::lstm", 0), ("aten::other", 1)])
def test_the_loop_of_a_recurrent_layer_is_torchs_own(within: str, expected: int) -> None:
    """Where a program comes to the layer once a token, its operations repeat as those of a loop do."""
    b = TraceBuilder()
    for k in range(3):
        t = k * 20_000.0
        b.step(t, 20_000.0)
        b.line(t, t + 19_000, "net.py", 4, "out, state = self.rnn(x, state)")
        for i in range(60):
            b.op(within, t + 300 * i, 100.0, dims=[[1, 8]], types=["float"])
            b.op("aten::sigmoid", t + 300 * i + 10, 4.0, dims=[[1, 8]], types=["float"])
    assert len(_found(b, "")) == expected


@pytest.mark.parametrize("kernels", [1, 3])
def test_kernels_of_one_call_are_no_rounds(kernels: int) -> None:
    """``topk`` comes with a dozen kernels: what a loop repeats are calls."""
    calls = small_kernels.COUNT_PER_STEP
    for count, found in ((calls - 1, 0), (calls, 1)):
        b = TraceBuilder()
        for k in range(3):
            t = k * 20_000.0
            b.step(t, 20_000.0)
            b.line(t, t + 19_000, "net.py", 4, "floor = logits.topk(4)")
            for i in range(count):
                u = t + 300 * i
                b.op("aten::topk", u, 100.0, dims=[[1, 8]], types=["float"])
                for j in range(kernels):
                    b.kernel("radix", u + 20 + 10 * j, 2.0, launched=u + 5 + 10 * j)
        assert len(_found(b, "")) == found
