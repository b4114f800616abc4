"""An edited kernel beside its original: which are compared, where errors lie, what outputs and times allow to say."""

from __future__ import annotations

import importlib
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import bench_modules as modules
from bench_inside import load_inside
from ridgeline.bench import plan, workbench

EDITED = modules.CPP.replace("{\n}", "{\n    out_ptr0[0] = in_ptr0[0];\n}")


def read(text: str) -> plan.Plan:
    return plan.read(text, "/x/c.py")


def test_of_a_single_kernel_the_two_are_compared_even_where_nothing_was_edited() -> None:
    found, notes = workbench.pairs(read(modules.CPP), read(EDITED), None)
    assert list(found) == ["cpp_fused_sin_0"]
    assert (found["cpp_fused_sin_0"].problem, notes) == (None, [])
    found, (note,) = workbench.pairs(read(modules.CPP), read(modules.CPP), None)
    assert list(found) == ["cpp_fused_sin_0"]
    assert "the same" in note


def two_kernels(text: str) -> str:
    start = text.index("cpp_fused_sin_0 = ")
    definition = text[start : text.index("\n\nasync_compile.wait")]
    return text[:start] + definition + "\n" + definition.replace("sin_0", "cos_1") + text[start + len(definition) :]


def test_of_a_module_only_what_was_edited_is_compared() -> None:
    both = two_kernels(modules.CPP)
    edited = both.replace("float* out_ptr0)\n{\n}", "float* out_ptr0)\n{ /* mine */ }", 1)
    assert list(workbench.pairs(read(both), read(edited), None)[0]) == ["cpp_fused_sin_0"]
    assert workbench.pairs(read(both), read(both), None)[0] == {}
    assert list(workbench.pairs(read(both), read(both), "cpp_fused_cos_1")[0]) == ["cpp_fused_cos_1"]


def test_other_arguments_are_refused_before_anything_runs() -> None:
    fewer = EDITED.replace("'const float*', 'float*'", "'float*'")
    other = EDITED.replace("'const float*', 'float*'", "'const float*', 'double*'")
    (pair,) = workbench.pairs(read(modules.CPP), read(fewer), None)[0].values()
    assert pair.problem == "the original takes 2 arguments, the edited one 1: both must take the same"
    (pair,) = workbench.pairs(read(modules.CPP), read(other), None)[0].values()
    assert pair.problem is not None
    assert pair.problem.startswith("argument 2 is a buffer of float32 in the original and a buffer of float64")


def test_the_copy_of_one_kernel_stands_alone_and_is_found_again() -> None:
    both = two_kernels(modules.CPP)
    text = workbench.copy_of(both, read(both), "cpp_fused_cos_1")
    (kernel,) = read(text).kernels
    assert kernel.name == "cpp_fused_cos_1"
    assert "sin_0" not in text
    compile(text, "copy", "exec")
    found, notes = workbench.pairs(read(both), read(text.replace("{\n}", "{ }")), None)
    assert (list(found), notes) == (["cpp_fused_cos_1"], [])
    assert workbench.copy_of(both, read(both), None) == both
    with pytest.raises(KeyError):
        workbench.copy_of(both, read(both), "cpp_fused_tan_2")


def test_edits_outside_of_the_kernels_are_named() -> None:
    edited = EDITED.replace("empty_strided_cpu((2, 17), (17, 1)", "empty_strided_cpu((2, 17), (1, 2)")
    assert workbench.pairs(read(modules.CPP), read(edited), None)[1] == [
        "what was edited outside of the kernels is not compared"
    ]


GCC = """C++ compile error

Output:
/tmp/cache/xy/cxy.main.cpp: In function ‘void kernel(const float*, float*)’:
/tmp/cache/xy/cxy.main.cpp:9:17: error: ‘y’ was not declared in this scope
    9 |     out_ptr0[0] = y;
      |                   ^
"""
TRITON = "at 3:10:\ndef k(in_ptr0, XBLOCK: tl.constexpr):\n    x = 1\n    y = z + 1\n          ^\nNameError('z is not defined')"


def test_a_compilers_error_is_placed_in_the_edited_file() -> None:
    text = EDITED.replace("out_ptr0[0] = in_ptr0[0];", "out_ptr0[0] = y;")
    line = next(n for n, row in enumerate(text.splitlines(), 1) if "= y;" in row)
    assert workbench.place_of_error(GCC, text, "kernel") == f"line {line}: ‘y’ was not declared in this scope"
    kernel = "import triton\n\n@triton.jit\ndef k(in_ptr0, XBLOCK: tl.constexpr):\n    x = 1\n    y = z + 1\n"
    assert workbench.place_of_error(TRITON, kernel, "k") == "line 6: NameError('z is not defined')"
    assert workbench.place_of_error("out of memory", kernel, "k") is None


def compared(before_us: float, after_us: float, *, tick_s: float = 0.0, calls: int = 1) -> dict[str, Any]:
    rounds = {
        which: [[[us * 1e-6 * calls * part for part in (0.999, 1.0, 1.0, 1.001)], calls]] * 2
        for which, us in (("before", before_us), ("after", after_us))
    }
    row = {"outputs": [], "problem": None, "cold": {**rounds, "tick_s": tick_s}}
    return dict(workbench.judged(row)["cold"])


def test_faster_slower_and_neither() -> None:
    assert compared(100, 80, calls=50)["sentence"] == "the edited one is 1.25x as fast"
    assert compared(80, 100)["sentence"] == "the edited one is 1.25x slower"
    same = compared(100, 98)
    assert (same["state"], same["sentence"]) == ("same", "no difference that exceeds the spread over all rounds, 3%")
    # A gain below one step of the clock is none.
    assert compared(2.0, 1.7, tick_s=5e-7)["state"] == "same"
    assert compared(0.0, 1.0)["speedup"] is None


torch = pytest.importorskip("torch")


@pytest.fixture
def against() -> ModuleType:
    load_inside()
    return importlib.import_module("_ridgeline_bench.against")


def differs(against: ModuleType, a: Any, b: Any, **options: Any) -> dict[str, Any]:
    options = {"reduces": False, "asked": [None, None], **options}
    return dict(against.difference(torch, a, b, **options))


def test_outputs_that_share_memory_among_themselves_are_filled(against: ModuleType) -> None:
    """Parts of a concatenation lie in one buffer, which holds the right values from the module's own run already."""
    whole, source = torch.ones(8), torch.arange(4.0)
    given = [source, whole[:4], whole[4:]]
    start, unfilled = against._with_outputs_filled(torch, given, ["in_ptr0", "out_ptr0", "out_ptr1"])
    assert unfilled == []
    assert not torch.equal(start[1], given[1])
    assert not torch.equal(start[2], given[2])
    assert torch.equal(whole, torch.ones(8))
    assert torch.equal(start[0], source)
    shared = [whole[:4], whole[4:], torch.zeros(2)]
    start, unfilled = against._with_outputs_filled(torch, shared, ["in_ptr0", "out_ptr0", "out_ptr1"])
    assert unfilled == ["out_ptr0"]
    assert torch.equal(start[1], shared[1])
    assert not torch.equal(start[2], shared[2])


def test_what_cannot_be_compared_is_not_said_to_agree() -> None:
    shared = workbench.judged({"outputs": [], "hidden": ["out_ptr0"], "problem": None})
    assert shared["equal"] is None
    assert shared["sentence"].startswith("out_ptr0 cannot be judged: an input shares its memory")
    nothing = workbench.judged({"outputs": [], "hidden": [], "problem": None})
    assert (nothing["equal"], nothing["sentence"]) == (True, "neither wrote anything: there are no outputs to compare")


def test_tolerances_follow_the_element_type(against: ModuleType) -> None:
    base = torch.linspace(1, 2, 64)
    for dtype, near, far in (
        (torch.float32, 1e-6, 1e-4),
        (torch.bfloat16, 8e-3, 0.1),
        (torch.float16, 5e-4, 0.02),
        (torch.float64, 1e-8, 1e-5),
        (torch.float8_e4m3fn, 0.07, 0.5),
        (torch.complex64, 1e-6, 1e-3),
    ):
        value = base.to(dtype)
        wide = torch.complex128 if dtype.is_complex else torch.float64
        again = value.to(torch.float32).to(wide) if dtype.itemsize == 1 else value.to(wide)
        assert differs(against, value, value.clone())["state"] == "same"
        assert differs(against, value, (again * (1 + near)).to(dtype))["state"] in ("close", "same"), dtype
        assert differs(against, value, (again * (1 + far)).to(dtype))["state"] == "differs", dtype
    one_off = differs(against, torch.arange(8), torch.arange(8) + torch.eye(8, dtype=torch.int64)[3])
    assert (one_off["state"], one_off["beyond"], one_off["worst"]) == ("differs", 1, 1.0)


def test_infinities_and_what_is_no_number_must_stand_at_the_same_places(against: ModuleType) -> None:
    nan, inf = float("nan"), float("inf")
    a = torch.tensor([1.0, nan, inf, -inf])
    assert differs(against, a, a.clone())["state"] == "same"
    assert differs(against, a, torch.tensor([1.0 + 1e-7, nan, inf, -inf]))["state"] == "close"
    wrong = differs(against, a, torch.tensor([1.0, 2.0, -inf, -inf]))
    assert (wrong["state"], wrong["beyond"], wrong["only_finite_in_one"]) == ("differs", 2, 2)


def test_a_reductions_order_is_allowed_for(against: ModuleType) -> None:
    """The error of a sum is of the size of its largest results: 1e-3 beside results of a thousand."""
    a = torch.tensor([1000.0, 0.01])
    b = torch.tensor([1000.0, 0.0109])
    assert differs(against, a, b)["state"] == "differs"
    assert differs(against, a, b, reduces=True)["state"] == "close"
    assert differs(against, a, b, asked=[0.2, None])["state"] == "close"


class Clock:
    def __init__(self) -> None:
        self.order: list[Any] = []

    def cold(self, call: Any) -> dict[str, Any]:
        self.order.append(call())
        return {"seconds": [1e-5] * 4, "calls": 1, "tick_s": 1e-7}


def run(against: ModuleType, original: Any, edited: Any, given: list[Any], names: list[str]) -> tuple[Any, list[Any]]:
    clock = Clock()
    measuring = SimpleNamespace(
        torch=torch,
        session=SimpleNamespace(late=False),
        clock=clock,
        request={"caches": ["cold"]},
        call_of=lambda kernel, arguments, named: lambda: kernel(*arguments),
        _synchronize=lambda: None,
    )
    wanted = {"names": names, "reduces": False, "tolerance": [None, None]}
    return against.compare(measuring, original, edited, wanted, given, {}), clock.order


def test_rounds_alternate_and_the_arguments_are_left_alone(against: ModuleType) -> None:
    def original(x: Any, out: Any) -> str:
        out.copy_(x * 2)
        return "A"

    def edited(x: Any, out: Any) -> str:
        out.copy_(x + x)
        return "B"

    given = [torch.arange(6.0), torch.zeros(6)]
    found, order = run(against, original, edited, given, ["in_ptr0", "out_ptr0"])
    assert order == ["A", "B", "A", "B"]
    assert [(one["name"], one["state"]) for one in found["outputs"]] == [("out_ptr0", "same")]
    assert torch.equal(given[1], torch.zeros(6))
    assert workbench.judged(found)["equal"] is True


def test_an_element_that_the_edit_no_longer_writes_shows(against: ModuleType) -> None:
    """Also where the memory held the right result before, left there by an earlier call."""

    def original(x: Any, out: Any) -> None:
        out.copy_(x * 2)

    def edited(x: Any, out: Any) -> None:
        out[:-1].copy_(x[:-1] * 2)

    x = torch.arange(1.0, 7.0)
    found, _ = run(against, original, edited, [x, x * 2], ["in_ptr0", "out_ptr0"])
    (output,) = found["outputs"]
    assert (output["state"], output["beyond"]) == ("differs", 1)
    judged = workbench.judged(found)
    assert judged["equal"] is False
    assert judged["sentence"].startswith("outputs differ: out_ptr0 in 1 of 6 elements")


def test_an_edit_that_changes_an_input_is_seen(against: ModuleType) -> None:
    def original(x: Any, out: Any) -> None:
        out.copy_(x)

    def edited(x: Any, out: Any) -> None:
        out.copy_(x)
        x.zero_()

    found, _ = run(against, original, edited, [torch.ones(4), torch.zeros(4)], ["in_ptr0", "out_ptr0"])
    assert {one["name"]: one["state"] for one in found["outputs"]} == {"in_ptr0": "differs", "out_ptr0": "same"}


def test_a_kernel_that_differs_from_itself_says_so(against: ModuleType) -> None:
    count = iter(range(100))

    def original(x: Any, out: Any) -> None:
        out.fill_(float(next(count)))

    found, _ = run(against, original, original, [torch.ones(4), torch.zeros(4)], ["in_ptr0", "out_ptr0"])
    assert found["notes"] == ["two calls of the original differ in out_ptr0 as well, by up to 1"]
