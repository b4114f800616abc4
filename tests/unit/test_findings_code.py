"""Rules that read the user's text: constants built anew, switches for finding errors, clocks, the old profiler."""

from __future__ import annotations

import ast

import pytest

from builders import TraceBuilder
from ridgeline.findings import find
from ridgeline.findings.numbers import functions, numbers_of
from ridgeline.findings.rules.constants import JOIN_US, PER_STEP
from ridgeline.profile import Finding


def _by_code(findings: list[Finding], code: str) -> list[Finding]:
    return [f for f in findings if f.code == code]


FORWARD = """import torch
class Net:
    def forward(self, x, n):
        {statement}
        {after}
        return x + mask
"""


def _forward(
    statement: str, after: str = "pass", *, every: int = 1, sizes: tuple[int, ...] = (64,), second: bool = False
) -> list[Finding]:
    """Eight steps; the statement makes a matrix by two ops of 50 µs together in every ``every``-th of them."""
    b = TraceBuilder()
    for k in range(8):
        t = 1000.0 * k
        b.step(t, 1000.0)
        if k % every == 0:
            size = sizes[k % len(sizes)]
            b.line(t, t + 60, "net.py", 4, statement)
            b.op(
                "aten::ones",
                t + 1,
                20,
                dims=[[], []],
                types=["ScalarList", "Scalar"],
                concrete=[f"[{size}, {size}]", ""],
            )
            dims = [[size, size], [size, size] if second else []]
            b.op("aten::triu", t + 22, 30, dims=dims, types=["float", "Scalar"], concrete=["", "1"])
        b.line(t + 60, t + 990, "net.py", 6, "return x + mask")
        b.op("aten::add", t + 61, 900, dims=[[64, 64], [64, 64]], types=["float", "float"])
    text = FORWARD.format(statement=statement, after=after)
    return _by_code(find(b.context(sources={"net.py": text})), "constant-rebuilt")


MASK = "mask = torch.triu(torch.ones(n, n), 1)"


def test_a_constant_on_its_line_with_all_its_time() -> None:
    (finding,) = _forward(MASK)
    assert (finding.file, finding.line) == ("net.py", 4)
    assert finding.saving_us == pytest.approx(51.0), "with Python's part between the two"
    assert finding.evidence["operations_per_step"] == 2.0


def test_where_the_host_sets_the_pace_the_gaps_of_its_launches_are_the_cost() -> None:
    """Three launches of ten are the mask's; each comes after the device has run dry."""
    b = TraceBuilder()
    for k in range(4):
        t = 1000.0 * k
        b.step(t, 1000.0)
        for i in range(10):
            u = t + 100 * i
            mine = i < 3
            b.line(u, u + 100, "net.py", 4 if mine else 6, MASK if mine else "return x + mask")
            b.op("aten::ones" if mine else "aten::add", u + 5, 60, dims=[[64, 64]], types=["float"])
            b.kernel("fill" if mine else "add", u + 70, 10.0, launched=u + 40)
    text = FORWARD.format(statement=MASK, after="")
    (finding,) = _by_code(find(b.context(sources={"net.py": text})), "constant-rebuilt")
    assert finding.saving_us == pytest.approx(260.0), "from its first operation to its last, not its kernels' 30 µs"
    assert finding.evidence["device_us_per_step"] == pytest.approx(30.0)


@pytest.mark.parametrize(
    "statement",
    [
        "mask = torch.triu(torch.ones(x.size(1), len(x)), 1).to(x.device)",
        "mask: torch.Tensor = torch.ones((n, n), dtype=torch.bool).triu(1)",
        "mask = torch.exp(torch.arange(0, n, 2) * (-2.0 / n))",
        "mask = nn.Transformer.generate_square_subsequent_mask(x.size(1)).to(x.device)",
        "mask = torch.hann_window(x.shape[1], periodic=False).to(x.device, x.dtype)",
    ],
)
def test_other_ways_to_write_one(statement: str) -> None:
    assert len(_forward(statement)) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "mask = torch.zeros(n, n)",
        "mask = torch.rand(n, n).triu(1)",
        "mask = nn.Linear(n, n)",
        "mask = F.pad(x, (0, 1))",
        "mask = lookup(torch.ones(n, n))",
        "mask = x.new_ones(n, n).triu(1)",
        "mask = table.scale(torch.ones(n, n))",
        "self.mask = torch.ones(n, n).triu(1)",
    ],
    ids=[
        "a buffer",
        "never the same",
        "an object of its own",
        "of another tensor",
        "a function of ours",
        "of a tensor",
        "a method of ours",
        "kept",
    ],
)
def test_what_may_not_be_a_constant_is_left(statement: str) -> None:
    assert not _forward(statement)


@pytest.mark.parametrize("after", ["mask[x > 0] = 2.0", "mask += x", "mask.masked_fill_(x > 0, 2.0)"])
def test_what_is_written_into_is_left(after: str) -> None:
    assert not _forward(MASK, after)


def test_sizes_that_vary_make_no_constant() -> None:
    assert not _forward(MASK, sizes=(64, 80))


def test_a_second_tensor_makes_no_constant() -> None:
    assert not _forward(MASK, second=True)


def test_without_the_text_nothing_is_said() -> None:
    b = TraceBuilder()
    b.step(0.0, 1000.0)
    b.step(1000.0, 1000.0)
    b.op("aten::ones", 10.0, 900.0, dims=[[]], types=["ScalarList"], concrete=["[64, 64]"])
    assert not _by_code(find(b.context()), "constant-rebuilt")


def test_now_and_then_is_no_finding() -> None:
    assert PER_STEP == 0.5
    assert not _forward(MASK, every=4)


# -- switches ---------------------------------------------------------------------------------------------------------


def _switches(text: str, *, cuda: bool = True) -> list[Finding]:
    b = TraceBuilder()
    b.step(0.0, 1000.0)
    if cuda:
        b.kernel("gemm", 10.0, 900.0)
    else:
        b.op("aten::mm", 10.0, 900.0)
    return _by_code(find(b.context(sources={"train.py": text})), "debug-mode")


@pytest.mark.parametrize(
    "text",
    [
        "import torch\ntorch.autograd.set_detect_anomaly(True)\n",
        "import torch\nwith torch.autograd.detect_anomaly():\n    pass\n",
        'import os\nos.environ["CUDA_LAUNCH_BLOCKING"] = "1"\n',
    ],
)
def test_a_switch_on_its_line(text: str) -> None:
    (finding,) = _switches(text)
    assert (finding.line, finding.severity) == (2, "information")


@pytest.mark.parametrize(
    "text",
    [
        "torch.autograd.set_detect_anomaly(False)\n",
        "torch.autograd.set_detect_anomaly(args.debug)\n",
        "torch.autograd.set_detect_anomaly(mode=debug)\n",
        'os.environ["CUDA_LAUNCH_BLOCKING"] = "0"\n',
        'os.environ["OTHER"] = "1"\n',
    ],
)
def test_off_or_up_to_somebody_else(text: str) -> None:
    assert not _switches(text)


def test_launch_blocking_means_nothing_on_a_cpu() -> None:
    assert not _switches('import os\nos.environ["CUDA_LAUNCH_BLOCKING"] = "1"\n', cuda=False)


# -- clocks and profilers ---------------------------------------------------------------------------------------------


def _clock(body: str) -> list[Finding]:
    text = f"import time\ndef main(model, x):\n    start = time.time()\n{body}    took = time.time() - start\n"
    b = TraceBuilder()
    b.step(0.0, 1000.0)
    b.line(0.0, 990.0, "bench.py", 4 if "for" not in body else 5, "model(x)")
    b.kernel("gemm", 10.0, 980.0)
    return _by_code(find(b.context(sources={"bench.py": text})), "unsynchronised-clock")


def test_a_clock_around_a_loop_is_near_enough() -> None:
    assert len(_clock("    model(x)\n")) == 1
    assert not _clock("    for _ in range(100):\n        model(x)\n")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("import torch.autograd.profiler as p\nwith p.profile() as prof:\n    pass\n", 2),
        ("from torch.autograd import profiler\nwith profiler.profile() as prof:\n    pass\n", 2),
        ("from torch.autograd.profiler import profile\n\nwith profile() as prof:\n    pass\n", 3),
        ("from torch.profiler import profile\nwith profile() as prof:\n    pass\n", None),
        ("from torch import profiler\nwith profiler.profile() as prof:\n    pass\n", None),
    ],
)
def test_the_legacy_profiler_by_any_name(text: str, line: int | None) -> None:
    b = TraceBuilder()
    b.step(0.0, 1000.0)
    b.op("aten::mm", 0.0, 900.0)
    found = _by_code(find(b.context(sources={"old.py": text})), "legacy-profiler")
    assert [f.line for f in found] == ([] if line is None else [line])


# -- constants of constants -------------------------------------------------------------------------------------------

CHAIN = """import math
import torch
class Net:
    def __init__(self, frame=64, weight=None):
        self.frame, self.weight = frame, weight
    def forward(self, x, scale):
        n = self.frame
        k = torch.arange(n)
        basis = {expression}
        return x @ basis
"""


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("torch.cos(math.pi / n * (k[None, :] + 0.5) * k[:, None])", 1),
        ("k[None, :] * k[:, None]", 1),
        ("k[None, :] * k[:, None] * scale", 0),
        ("k[None, :] * k[:, None] + self.weight", 0),
        ("k[None, :] * x[:, None]", 0),
        ("k[None, :] * torch.rand(n)[:, None]", 0),
        ("torch.ones(n)[None, :] * torch.randn(n, 1)", 0),
    ],
)
def test_what_is_made_of_a_constant_is_one(expression: str, expected: int) -> None:
    """Two tensors come together: both must be known to be constants."""
    b = TraceBuilder()
    for k in range(4):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.line(t, t + 5, "net.py", 8, "k = torch.arange(n)")
        b.op("aten::arange", t + 1, 3, dims=[[]], types=["Scalar"], concrete=["64"])
        b.line(t + 5, t + 100, "net.py", 9, f"basis = {expression}")
        b.op("aten::mul", t + 10, 80, dims=[[1, 64], [64, 1]], types=["float", "float"])
        b.line(t + 100, t + 990, "net.py", 10, "return x @ basis")
        b.op("aten::mm", t + 110, 850, dims=[[64, 64], [64, 64]], types=["float", "float"])
    found = _by_code(find(b.context(sources={"net.py": CHAIN.format(expression=expression)})), "constant-rebuilt")
    assert [f.line for f in found if f.line == 9] == [9] * expected


BIAS = """import torch
class Biased:
    def bias(self, n):
        at = torch.arange(n)
        {statement}
"""


@pytest.mark.parametrize(
    ("statement", "kind", "dims", "expected"),
    [
        ("return -torch.log1p((at[:, None] - at[None, :]).abs() / self.reach)", "double", [], 1),
        ("return -torch.log1p((at[:, None] - at[None, :]).abs() / self.reach)", "float", [], 0),
        ("return -torch.log1p((at[:, None] - at[None, :]).abs() / self.reach)", "float", [64, 64], 0),
        ("return -torch.log1p((at[:, None] - at[None, :]).abs() / reach)", "double", [], 0),
        ("bias, scale = (at[:, None] - at[None, :]).abs() / self.reach, 2", "double", [], 1),
        ("return torch.tensor(rows)", "double", [], 0),
    ],
    ids=["a number", "a parameter", "a table", "a name from elsewhere", "two names", "a list"],
)
def test_what_an_object_holds_is_a_number_if_the_recording_says_so(
    statement: str, kind: str, dims: list[int], expected: int
) -> None:
    """Twice a step: one operator between two constants, and one operation that takes two tensors; a tensor makes it two."""
    b = TraceBuilder()
    for k in range(4):
        t = 1000.0 * k
        b.step(t, 1000.0)
        for u in (t, t + 300):
            b.line(u, u + 5, "net.py", 4, "at = torch.arange(n)")
            b.op("aten::arange", u + 1, 3, dims=[[]], types=["Scalar"], concrete=["64"])
            b.line(u + 5, u + 200, "net.py", 5, statement)
            b.op("aten::sub", u + 10, 40, dims=[[64, 1], [1, 64]], types=["float", "float"])
            b.op("aten::abs", u + 60, 40, dims=[[64, 64]], types=["float"])
            b.op("aten::div", u + 110, 40, dims=[[64, 64], dims], types=["float", kind])
        b.line(t + 600, t + 990, "net.py", 9, "return x @ self.bias(n)")
        b.op("aten::mm", t + 610, 350, dims=[[64, 64], [64, 64]], types=["float", "float"])
    text = BIAS.format(statement=statement)
    found = _by_code(find(b.context(sources={"net.py": text})), "constant-rebuilt")
    assert [f.line for f in found if f.line == 5] == [5] * expected


def test_what_is_made_of_something_else_as_well_is_none() -> None:
    """``idx`` may be a tensor, so ``flat`` is no constant, and what is taken with it neither."""
    text = """import torch
def features(x, idx, n):
    flat = (idx + torch.arange(4)[:, None] * n).reshape(-1)
    near = x[flat]
    return near
"""
    b = TraceBuilder()
    for k in range(4):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.line(t, t + 100, "net.py", 3, "flat = (idx + torch.arange(4)[:, None] * n).reshape(-1)")
        b.op("aten::add", t + 10, 80, dims=[[4, 8], [4, 1]], types=["long int"] * 2)
        b.line(t + 100, t + 990, "net.py", 4, "near = x[flat]")
        b.op("aten::index", t + 110, 850, dims=[[64, 64], []], types=["float", ""])
    assert not _by_code(find(b.context(sources={"net.py": text})), "constant-rebuilt")


KEEPING = """import torch
class Net:
    def __init__(self, heads=8, table=None):
        {given}
    def forward(self, x):
        at = torch.arange(64)
        bias = -self.slopes.view(-1, 1, 1) * at.sqrt()
        return x + bias
    def other(self):
        {other}
"""
OF_NUMBERS = 'self.register_buffer("slopes", 2.0 ** -torch.arange(1, heads + 1).float())'


@pytest.mark.parametrize(
    ("given", "other", "expected"),
    [
        (OF_NUMBERS, "pass", 1),
        ("self.slopes = torch.linspace(0, 1, heads)", "pass", 1),
        ('n = torch.arange(heads); self.register_buffer("slopes", n / 2)', "pass", 1),
        ("self.slopes = torch.nn.Parameter(torch.ones(heads))", "pass", 0),
        ('self.register_buffer("slopes", torch.rand(heads))', "pass", 1),
        ('self.register_buffer("slopes", table)', "pass", 1),
        ("self.slopes = table", "pass", 0),
        ('self.register_buffer("slopes", table)', "smooth(self.slopes, 0.9)", 0),
        ('self.register_buffer("slopes", table)', "torch.lerp(self.slopes, table, 0.1, out=self.slopes)", 0),
        (OF_NUMBERS, "self.slopes.mul_(0.9)", 0),
        (OF_NUMBERS, "self.slopes[0] = 1.0", 0),
        (OF_NUMBERS, "self.slopes += 1", 0),
        (OF_NUMBERS, "self.slopes.data.copy_(table)", 0),
        (OF_NUMBERS, "[b.mul_(2) for b in self.buffers()]", 0),
    ],
)
def test_what_an_object_keeps_is_a_constant_if_nothing_writes_to_it(given: str, other: str, expected: int) -> None:
    b = TraceBuilder()
    for k in range(4):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.line(t, t + 200, "net.py", 7, "bias = -self.slopes.view(-1, 1, 1) * at.sqrt()")
        b.op("aten::mul", t + 10, 150, dims=[[8, 1, 1], [64]], types=["float", "float"])
        b.line(t + 200, t + 990, "net.py", 8, "return x + bias")
        b.op("aten::add", t + 210, 750, dims=[[8, 64, 64], [8, 64, 64]], types=["float", "float"])
    text = KEEPING.format(given=given, other=other)
    found = _by_code(find(b.context(sources={"net.py": text})), "constant-rebuilt")
    assert [f.line for f in found] == [7] * expected


@pytest.mark.parametrize(("between", "expected"), [(None, 100.0), ("another statement's", 70.0), ("too long", 70.0)])
def test_python_between_two_operations_goes_with_them(between: str | None, expected: float) -> None:
    """Two operations of 20 and 50 µs, 30 µs apart."""
    b = TraceBuilder()
    later = 30.0 if between != "too long" else JOIN_US + 0.1
    for k in range(4):
        t = 1000.0 * k
        b.step(t, 1000.0)
        b.line(t, t + 900, "net.py", 4, MASK)
        b.op("aten::ones", t + 1, 20, dims=[[], []], types=["ScalarList", "Scalar"], concrete=["[64, 64]", ""])
        if between == "another statement's":
            b.line(t + 22, t + 30, "net.py", 6, "return x + mask")
            b.op("aten::neg", t + 23, 5, dims=[[64, 64]], types=["float"])
        b.op("aten::triu", t + 21 + later, 50, dims=[[64, 64]], types=["float"])
    text = FORWARD.format(statement=MASK, after="pass")
    (finding,) = _by_code(find(b.context(sources={"net.py": text})), "constant-rebuilt")
    assert finding.saving_us == pytest.approx(expected)


NUMBERED = """
class Net:
    def __init__(self, width, heads: int, depth=4, *, drop=0.1):
        self.width, self.heads = width, heads
        self.depth, self.count = depth, 0
        self.drop, self.size = drop, 2 * depth
    def forward(self, x, mask, steps: int, temperature=1.0, *, flag=True):
        self.count += 1
        b, n, c = x.shape
        half = n // 2
        d = c // self.heads
        a, z = x, n
        m = len(mask) + int(temperature)
        s = x.size(1) * math.sqrt(d)
        again = n
        again = x
        for i in range(n):
            total = i
        y = torch.zeros(n)
        w = max(n, steps)
        u = max(x, y)
"""


def test_which_names_are_numbers() -> None:
    tree = ast.parse(NUMBERED)
    (found,) = [(f, c) for f, c in functions(tree) if f.name == "forward"]
    assert numbers_of(*found) == {
        "self.heads", "self.depth", "self.drop", "self.size", "steps", "temperature",
        "b", "n", "c", "half", "d", "z", "m", "s", "w",
    }  # fmt: skip


def test_statements_of_one_function_that_make_one_constant_are_one_finding() -> None:
    text = "import torch\ndef grid(n):\n    axis = torch.linspace(0, 1, n)\n    nodes = torch.cartesian_prod(axis, axis)\n    return nodes / 2\n"
    b = TraceBuilder()
    for k in range(4):
        t = 1000.0 * k
        b.step(t, 1000.0)
        for line, at, took, name in (
            (3, 10, 20, "aten::linspace"),
            (4, 110, 75, "aten::cartesian_prod"),
            (5, 210, 90, "aten::div"),
        ):
            b.line(t + at - 10, t + at + 90, "net.py", line)
            b.op(name, t + at, took, dims=[[64], []], types=["float", ""])
        b.line(t + 300, t + 990, "net.py", 9)
        b.op("aten::mm", t + 310, 600, dims=[[64, 64], [64, 64]], types=["float", "float"])
    (found,) = _by_code(find(b.context(sources={"net.py": text})), "constant-rebuilt")
    assert found.line == 4, "the first of those that take about the most"
    assert found.time_us == pytest.approx(20.0 + 75.0 + 25.0 + 90.0), "with the Python between the last two"
    assert [r["line"] for r in found.evidence["related"]] == [3, 5]
    assert "2 more of its function (lines 3, 5)" in found.message
