"""The search's own steps with a stand-in for the kernels: the order of the rounds, fresh copies, what fails."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from bench_inside import load_inside  # noqa: E402

KERNEL = """
class Kernel:
    def __init__(self):
        self.launchers = [type("L", (), {"config": "{CONFIG}", "n_regs": 32, "n_spills": 0, "shared": 1024})()]
        self.configs = None
    def run(self, x, stream=None):
        x.add_(1)
        ORDER.append("{CONFIG}")
import builtins
ORDER = builtins.__dict__.setdefault("_ridgeline_order", [])
k = Kernel()
"""


@pytest.fixture
def inside() -> ModuleType:
    load_inside()
    return importlib.import_module("_ridgeline_bench.tuned")


class Clock:
    def cold(self, call: Any) -> dict[str, Any]:
        call()
        return {"seconds": [1e-5] * 4, "tick_s": 5e-7}


def test_rounds_alternate_and_the_arguments_are_left_alone(
    inside: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import builtins

    order: list[str] = []
    monkeypatch.setitem(builtins.__dict__, "_ridgeline_order", order)
    measuring = SimpleNamespace(
        torch=torch,
        session=SimpleNamespace(late=False),
        request={"path": str(tmp_path / "generated.py"), "cuda": False},
        wanted={"k": {"index": 0}},
        clock=Clock(),
        call_of=lambda kernel, arguments, named: lambda: kernel.run(*arguments, **named),
        _synchronize=lambda: None,
    )
    given = [torch.zeros(4)]
    search = {which: KERNEL.replace("{CONFIG}", which) for which in ("plain", "narrow", "wider")}
    compared = inside.compare(measuring, "k", {**search, "symbol": "k"}, given, {})
    assert order == ["plain", "narrow", "wider"] * 3  # each once to compile, then two rounds
    assert {which: copy["config"] for which, copy in compared["copies"].items()} == {which: which for which in search}
    assert [len(copy["rounds"]) for copy in compared["copies"].values()] == [2, 2, 2]
    assert all(copy["compile_s"] > 0 for copy in compared["copies"].values())
    assert torch.equal(given[0], torch.zeros(4))


def test_copies_keep_strides_and_shared_memory(inside: ModuleType) -> None:
    arguments = importlib.import_module("_ridgeline_bench.arguments")
    base = torch.arange(12.0).reshape(3, 4)
    first, second, number = arguments.copied(torch, [base.t(), base[1:], 7])
    assert (first.stride(), second.shape, number) == ((1, 4), (2, 4), 7)
    first.zero_()
    assert second.abs().sum() == 0  # the two share memory, as the originals do
    assert base.sum() == 66  # which are untouched


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "complex64", "bool", "bfloat16", "int64"])
def test_arguments_of_every_kind_are_made(inside: ModuleType, dtype: str) -> None:
    arguments = importlib.import_module("_ridgeline_bench.arguments")
    described = {"size": [16, 32], "stride": [1, 16], "dtype": dtype, "device": "cpu"}
    tensor = arguments.make(torch, described, 5, seed=0)
    assert (tuple(tensor.shape), tensor.stride(), tensor.dtype) == ((16, 32), (1, 16), getattr(torch, dtype))
    if dtype == "int64":
        assert 0 <= tensor.min() < tensor.max() < 5
    assert arguments.make(torch, None, None, seed=0) is None
    with pytest.raises(arguments.CannotMake):
        arguments.make(torch, {**described, "dtype": "float3"}, None, seed=0)
