"""A program's own Triton kernels: what the agent notes of their launches, and the plan that is made of it."""

from __future__ import annotations

import ctypes
import json
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ridgeline.agent import triton_calls, triton_values
from ridgeline.agent.triton_calls import TritonCalls, described_call, described_value, standalone
from ridgeline.agent.triton_values import Values
from ridgeline.bench import document, launches, plan, workbench
from ridgeline.bench.bytes import moved_bytes
from ridgeline.sidecar import TritonKernel

PROGRAM = """
import triton
import triton.language as tl

HALF = 0.5
TABLE = object()


def jit(function):
    return Kernel(function)


@jit
def halve(x):
    return x * HALF


@jit
def scale(x_ptr, out_ptr, n, BLOCK: tl.constexpr = 64):
    return halve(x_ptr) + tl.arange(BLOCK)


@jit
def odd(x_ptr):
    return TABLE
"""


class Kernel:
    """What matters of ``JITFunction``."""

    def __init__(self, function: Any) -> None:
        self.fn = function

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> str:
        return "launched"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The kernels of a program, with a stand-in for ``triton``, which is not needed to describe them."""
    language: Any = ModuleType("triton.language")
    language.arange, language.constexpr = (lambda n: n), int
    triton: Any = ModuleType("triton")
    triton.language = language
    monkeypatch.setitem(sys.modules, "triton", triton)
    monkeypatch.setitem(sys.modules, "triton.language", language)
    path = tmp_path / "own.py"
    path.write_text(PROGRAM)
    space: dict[str, Any] = {"Kernel": Kernel, "__name__": "own"}
    exec(compile(PROGRAM, str(path), "exec"), space)
    return space


class Tensor:
    """Described without being read."""

    device = "cuda:0"

    def __init__(self, *shape: int, dtype: str = "torch.float32") -> None:
        self.shape, self.dtype = shape, dtype

    def stride(self) -> tuple[int, ...]:
        return (1,) * len(self.shape)

    def data_ptr(self) -> int:
        raise AssertionError("nothing is read")


def test_a_kernel_comes_with_the_constants_and_helpers_that_it_uses(program: dict[str, Any]) -> None:
    text, needs = standalone(program["scale"].fn)
    assert needs == []
    compile(text, "text", "exec")
    for part in ("import triton.language as tl", "HALF = 0.5", "@triton.jit\ndef scale(", "@triton.jit\ndef halve("):
        assert part in text
    assert text.index("def scale") < text.index("def halve")  # its own comes first
    _, needs = standalone(program["odd"].fn)
    assert needs == ["constant TABLE"]


def test_a_launch_is_described_by_the_names_of_the_signature(program: dict[str, Any]) -> None:
    x = Tensor(1000)
    call = described_call(
        program["scale"], (x, x, 1000), {"grid": lambda meta: (meta["n"] // meta["BLOCK"],), "num_warps": 8}
    )
    assert call["grid"] == [15]
    assert call["options"] == {"num_warps": 8}
    assert [one["name"] for one in call["arguments"]] == ["x_ptr", "out_ptr", "n", "BLOCK"]
    assert call["arguments"][0] == {"name": "x_ptr", "size": [1000], "stride": [1], "dtype": "float32",
                                    "device": "cuda:0", "same_as": None}  # fmt: skip
    assert call["arguments"][1]["same_as"] == "x_ptr"
    assert [one["value"] for one in call["arguments"][2:]] == [1000, 64]
    json.dumps(call, allow_nan=False)
    assert described_value(object()) == {"type": "unknown", "value": "object"}
    assert described_value(float("nan"))["type"] == "unknown"  # nothing that strict JSON could hold


INDEX = "torch.int64"


class Index(Tensor):
    """Integers in memory of the host's, as a launch gives them."""

    device = "cpu"

    def __init__(self, values: list[int], *, shape: tuple[int, ...] = (), strides: tuple[int, ...] = ()) -> None:
        super().__init__(*(shape or (len(values),)), dtype=INDEX)
        self.memory = (ctypes.c_int64 * len(values))(*values)
        self.strides = strides or (1,) * len(self.shape)

    def stride(self) -> tuple[int, ...]:
        return self.strides

    def data_ptr(self) -> int:
        return ctypes.addressof(self.memory)


def content(tensor: Any, *, values: Values | None = None) -> Any:
    """What is known of an argument once it was launched with."""
    argument = triton_calls.described_tensor(tensor)
    assert (values or Values()).note(argument, tensor, recording=True)  # of the host's memory at any time
    return argument.get("content")


def test_small_integer_arguments_are_kept_and_large_ones_by_their_range() -> None:
    assert content(Index([7, 0, 3])) == {"low": 0, "high": 7, "sorted": False, "values": [7, 0, 3]}
    # A column of a table of two: what lies between is somebody else's.
    column = Index([1, -99, 2, -99, 3], shape=(3, 1), strides=(2, 1))
    assert content(column) == {"low": 1, "high": 3, "sorted": True, "values": [1, 2, 3]}
    offsets = content(Index([4 * i for i in range(triton_values.LISTED + 1)]))
    assert offsets == {"low": 0, "high": 4 * triton_values.LISTED, "sorted": True}
    sampled = content(Index(list(range(3 * triton_values.SAMPLED))))
    assert sampled["low"] == 0
    assert 3 * triton_values.SAMPLED - 4 < sampled["high"] < 3 * triton_values.SAMPLED
    few = Values()
    few._listed = 4
    assert "values" in content(Index([1, 2, 3]), values=few)
    assert "values" not in content(Index([1, 2, 3]), values=few)
    assert content(Tensor(4)) is None  # floating-point numbers are nobody's business
    assert content(Index([])) is None


def test_an_argument_without_memory_stays_unknown() -> None:
    class Stand(Index):
        def data_ptr(self) -> int:
            raise RuntimeError("a tensor that only stands for one has no memory")

    assert content(Stand([1])) is None


class Device:
    """A GPU's side of it: copies are done when they are done."""

    capturing = done = False

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import torch

        cuda = SimpleNamespace(is_available=lambda: True, is_current_stream_capturing=lambda: self.capturing,
                               Event=lambda: SimpleNamespace(record=lambda: None, query=lambda: self.done))  # fmt: skip
        stand_in = SimpleNamespace(
            cuda=cuda, no_grad=torch.no_grad, empty=lambda shape, dtype, pin_memory: torch.empty(shape, dtype=dtype)
        )
        monkeypatch.setitem(sys.modules, "torch", stand_in)


def test_on_a_gpu_nothing_waits_and_a_recording_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    table = torch.tensor([[5, 1], [2, 9]])
    device = Device(monkeypatch)
    tensor: Any = SimpleNamespace(is_cuda=True, is_contiguous=lambda: True, detach=lambda: table)
    argument: dict[str, Any] = {"name": "i", "dtype": "int64", "size": [2, 2], "stride": [2, 1], "device": "cuda:0"}
    values = Values()
    assert not values.note(argument, tensor, recording=True)
    device.capturing = True
    assert not values.note(argument, tensor, recording=False)
    device.capturing = False
    assert values.note(argument, tensor, recording=False)
    assert not values.arrived(recording=False)  # the program went on
    device.done = True
    assert not values.arrived(recording=True)
    assert "content" not in argument
    assert values.arrived(recording=False)
    assert argument["content"] == {"low": 1, "high": 9, "sorted": False, "values": [5, 1, 2, 9]}


def test_a_launch_is_looked_at_until_its_integers_are_known(
    program: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, kind, complaints = hooked()
    kernel = kind(program["scale"].fn)
    index = Index([2, 0, 1])
    for _ in range(6):
        kernel.run(index, index, 3, grid=(1,))
    kernel.run(index, index, 4, grid=(1,))
    kernel.run(index, index, 4, grid=(1,))  # the eighth is looked at, and its integers with it
    (row,) = calls.rows()
    assert complaints == []
    assert [[one.get("content", {}).get("values") for one in call["arguments"][:2]] for call in row["calls"]] == [
        [[2, 0, 1], [2, 0, 1]]
    ] * 2
    assert calls._unread == {}
    json.dumps(row, allow_nan=False)


@pytest.mark.torch
def test_integers_are_made_as_the_run_had_them() -> None:
    torch = pytest.importorskip("torch")
    from ridgeline.agent.made import make

    row: dict[str, Any] = {"size": [3, 1], "stride": [2, 1], "dtype": "int32", "device": "cpu"}
    few = make(torch, {**row, "content": {"low": 1, "high": 9, "sorted": False, "values": [9, 1, 4]}}, None, 0)
    assert (few.tolist(), few.stride(), few.dtype) == ([[9], [1], [4]], (2, 1), torch.int32)
    many = make(
        torch, {**row, "size": [5000], "stride": [1], "content": {"low": 3, "high": 90, "sorted": True}}, None, 0
    )
    assert (int(many[0]), int(many[-1])) == (3, 90)
    assert bool((many[1:] >= many[:-1]).all())
    scalar = make(
        torch,
        {**row, "size": [], "stride": [], "content": {"low": 7, "high": 7, "sorted": True, "values": [7]}},
        None,
        0,
    )
    assert scalar.item() == 7
    wide = {"low": 0, "high": 2**63 - 1, "sorted": False}
    assert make(torch, {**row, "dtype": "int64", "content": wide}, None, 0).min() >= 0


def hooked() -> tuple[TritonCalls, type, list[Any]]:
    """The hook on a class of its own, as Triton's module would have it."""
    complaints: list[Any] = []
    calls = TritonCalls(lambda what, error: complaints.append(error))
    kind = type("JITFunction", (Kernel,), {"__module__": "triton.runtime.jit", "run": Kernel.run})
    calls.on_runtime(SimpleNamespace(JITFunction=kind, __name__="triton.runtime.jit"))  # type: ignore[arg-type]
    return calls, kind, complaints


def test_an_interpreter_that_launches_by_index_is_looked_at_too(program: dict[str, Any]) -> None:
    """Triton before 3.6: ``InterpretedFunction`` has no ``run`` of its own."""
    calls = TritonCalls(lambda what, error: None)

    class Interpreted:
        __module__ = "triton.runtime.interpreter"

        def __init__(self, function: Any) -> None:
            self.fn = function

        def __getitem__(self, grid: Any) -> Any:
            return lambda *args, **kwargs: "launched"

    calls.on_runtime(SimpleNamespace(InterpretedFunction=Interpreted, __name__="triton.runtime.interpreter"))  # type: ignore[arg-type]
    x = Tensor(64)
    assert Interpreted(program["scale"].fn)[(4,)](x, x, 64, BLOCK=32) == "launched"
    ((call,),) = (row["calls"] for row in calls.rows())
    assert (call["grid"], [one.get("value") for one in call["arguments"]]) == ([4], [None, None, 64, 32])


def test_distinct_arguments_are_kept_and_most_launches_are_only_counted(
    program: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, kind, complaints = hooked()
    looked: list[int] = []
    original, glance = triton_calls.described_call, triton_calls.glance
    monkeypatch.setattr(triton_calls, "described_call", lambda *a: looked.append(1) or original(*a))
    glances: list[int] = []
    monkeypatch.setattr(triton_calls, "glance", lambda *a: glances.append(1) or glance(*a))
    kernel = kind(program["scale"].fn)
    for number in range(1000):
        assert kernel.run(Tensor(1000 if number % 2 else 64), Tensor(8), 8, grid=(1,), warmup=False) == "launched"
    (row,) = calls.rows()
    assert complaints == []
    assert (row["name"], row["launches"]) == ("scale", 1000)
    assert [one["arguments"][0]["size"] for one in row["calls"]] == [[64], [1000]]
    assert len(looked) == 2
    assert len(glances) == 4 + 7  # the first four, then 8, 16, … 512
    assert row["recorded"] == []
    assert Path(row["file"]).name == "own.py"
    assert PROGRAM.splitlines()[row["line"] - 1].startswith("def scale")


def test_while_the_profiler_records_each_launch_is_told_from_the_others(
    program: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, kind, complaints = hooked()
    kernel = kind(program["scale"].fn)
    for _ in range(4):
        kernel.run(Tensor(64), Tensor(8), 8, grid=(1,), warmup=False)
    assert calls.rows()[0]["recorded"] == []
    monkeypatch.setattr(triton_calls, "profiling", lambda: True)
    start = time.time_ns()
    for size in (64, 7, 9, 7):  # one that was known, two that were not
        kernel.run(Tensor(size), Tensor(8), 8, grid=(1,), warmup=False)
    kernel.run(Tensor(9), Tensor(8), [8], grid=(1,), warmup=False)  # a value that cannot be compared is described
    end = time.time_ns()
    monkeypatch.setattr(triton_calls, "profiling", lambda: False)
    (row,) = calls.rows([{"start_ns": start, "end_ns": end}])
    assert complaints == []
    assert [index for _, index in row["recorded"]] == [0, 1, 2, 1, 3]
    assert all(start <= at <= end for at, _ in row["recorded"])
    assert [call["arguments"][0]["size"] for call in row["calls"]] == [[64], [7], [9], [9]]
    assert calls.rows([{"start_ns": end + 1, "end_ns": end + 2}])[0]["recorded"] == []


def test_trials_of_the_autotuner_and_warmups_are_no_launches(program: dict[str, Any]) -> None:
    calls, kind, _ = hooked()
    kernel = kind(program["scale"].fn)

    class Autotuner:
        def _bench(self, size: int) -> None:
            kernel.run(Tensor(size), Tensor(8), 8, grid=(1,), warmup=False)

    calls.on_autotuner(SimpleNamespace(Autotuner=Autotuner))  # type: ignore[arg-type]
    for size in range(100):
        Autotuner()._bench(size)
    kernel.run(Tensor(5), Tensor(8), 8, grid=(1,), warmup=True)
    assert calls.rows() == []
    kernel.run(Tensor(7), Tensor(8), 8, grid=(1,), warmup=False)
    (row,) = calls.rows()
    assert (row["launches"], len(row["calls"])) == (1, 1)


def test_what_cannot_be_described_never_stops_the_launch(program: dict[str, Any]) -> None:
    calls, kind, complaints = hooked()
    kernel = kind(SimpleNamespace())
    for _ in range(3):
        assert kernel.run(1, grid=(1,), warmup=False) == "launched"
    assert len(complaints) == 1
    assert calls.rows() == []


def row(program: dict[str, Any], file: str = "/x/own.py", **changes: Any) -> TritonKernel:
    arguments = [
        {"name": "x_ptr", "size": [64, 4], "stride": [4, 1], "dtype": "float32", "device": "cpu", "same_as": None},
        {"name": "out_ptr", "size": [64, 4], "stride": [4, 1], "dtype": "float32", "device": "cpu", "same_as": "x_ptr"},
        {"name": "n", "value": 256},
        {"name": "BLOCK", "type": "triton.language", "value": "float32"},
    ]
    call = {"arguments": arguments, "grid": [4], "options": {"num_warps": 4}}
    values: dict[str, Any] = {"name": "scale", "file": file, "line": 18, "launches": 9, "calls": [call], **changes}
    return TritonKernel(text=standalone(program["scale"].fn)[0], **values)


def test_the_plan_of_a_run(program: dict[str, Any]) -> None:
    first = row(program)
    first.calls.append({**first.calls[0], "grid": [8]})
    read = launches.plan_of([first], PROGRAM, "/x/own.py", "/runs/1")
    assert (read.file_kind, [kernel.name for kernel in read.kernels], read.notes) == (
        "launches",
        ["scale", "scale#2"],
        [],
    )
    (site,) = read.kernels[0].sites
    assert site.problem is None
    assert site.arguments[1]["same_as"] == 0
    assert site.arguments[2:] == [256, {"type": "triton.language", "value": "float32"}]
    assert moved_bytes(read.kernels[0].signature, site.arguments) == 2 * 64 * 4 * 4
    asked = document.request(read, path="/t/g.py", caches=["warm"], timeout_s=1, verify=True)
    assert [one["launch"]["grid"] for one in asked["kernels"]] == [[4], [8]]
    assert (asked["cuda"], asked["kernels"][0]["search"]) == (False, None)
    json.dumps(asked)
    assert [kernel.name for kernel in document.chosen(read, "scale", None)] == ["scale", "scale#2"]
    assert [kernel.name for kernel in document.chosen(read, "scale#2", None)] == ["scale#2"]
    shown = document.build(read, {}, verify=False)["kernels"][0]["launched"]
    assert shown == "x_ptr float32[64, 4], out_ptr float32[64, 4], n=256, BLOCK=float32, num_warps=4; grid 4"


def test_what_a_run_does_not_hold_is_said(program: dict[str, Any]) -> None:
    read = launches.plan_of([row(program, needs=["constant TABLE"])], PROGRAM, "/x/own.py", "/runs/1")
    assert read.kernels[0].sites[0].problem == "it needs constant TABLE of own.py, which a run does not record"
    edited = PROGRAM.replace("halve(x_ptr) +", "halve(x_ptr) -")
    read = launches.plan_of([row(program)], edited, "/x/own.py", "/runs/1")
    assert read.notes == ["scale was edited since that run: what the run launched is measured"]
    unknown = row(program)
    unknown.calls[0]["arguments"][2] = {"name": "n", "type": "unknown", "value": "TensorDescriptor"}
    (kernel,) = launches.plan_of([unknown], PROGRAM, "/x/own.py", "/runs/1").kernels
    assert kernel.sites[0].problem == "its argument n is a TensorDescriptor, which cannot be made again"
    indices = row(program)
    indices.calls[0]["arguments"][0]["dtype"] = "int64"
    (kernel,) = launches.plan_of([indices], PROGRAM, "/x/own.py", "/runs/1").kernels
    assert any("zeros" in note for note in kernel.notes)


def test_kernels_are_found_by_any_path_to_their_file(program: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(PROGRAM)
    link = tmp_path / "link.py"
    link.symlink_to(tmp_path / "own.py")
    assert launches.of_file([row(program, str(tmp_path / "own.py")), row(program)], link)[0].file.endswith("own.py")
    assert not launches.is_program("from torch._inductor.runtime import triton_heuristics\n@triton.jit\n")
    assert launches.is_program("@triton.jit\ndef f(): ...\n")


def test_an_edited_copy_of_a_programs_kernel_is_paired_by_its_name(program: dict[str, Any]) -> None:
    read = launches.plan_of([row(program)], PROGRAM, "/x/own.py", "/runs/1")
    text = workbench.copy_of(PROGRAM, read, "scale")
    found, _ = workbench.pairs(read, plan.read(text.replace("HALF = 0.5", "HALF = 0.25"), "/x/mine.py"), None)
    assert found["scale"].problem is None
    assert found["scale"].edited.symbol == "scale"
