"""The agent's smaller parts: import hooks, whose files are whose, instrumentation, exit status, run folder."""

from __future__ import annotations

import ast
import contextlib
import gzip
import json
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from ridgeline.agent import kernels
from ridgeline.agent.exits import USUAL, status_of
from ridgeline.agent.hooks import PostImport
from ridgeline.agent.instrument import SCOPE, cpp_kernels, instrument, is_wrapper
from ridgeline.agent.paths import UserFiles, is_ours
from ridgeline.agent.result import why_not_steady, why_nothing
from ridgeline.agent.runfolder import RunFolder
from ridgeline.agent.spec import from_dict
from ridgeline.agent.take import Take
from ridgeline.agent.watch import importing_torch, likeness

# ---------------------------------------------------------------------- import hooks


@pytest.fixture
def module_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "ridgeline_probe.py").write_text("VALUE = 1\nREADY = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "ridgeline_probe", raising=False)
    return "ridgeline_probe"


def test_a_hook_runs_after_the_module_and_before_its_importer_goes_on(module_on_path: str) -> None:
    seen: list[Any] = []
    imports = PostImport(lambda what, error: seen.append(error))
    imports.when(module_on_path, lambda module: seen.append(module.READY))
    imports.install()
    try:
        module = __import__(module_on_path)
        assert seen == [True]
        assert module.VALUE == 1
    finally:
        imports.remove()
        sys.modules.pop(module_on_path, None)


def test_a_hook_that_fails_does_not_break_the_import(module_on_path: str) -> None:
    errors: list[str] = []
    imports = PostImport(lambda what, error: errors.append(f"{what}: {error}"))

    def bad(module: ModuleType) -> None:
        raise RuntimeError("no")

    imports.when(module_on_path, bad)
    imports.install()
    try:
        assert __import__(module_on_path).VALUE == 1
    finally:
        imports.remove()
        sys.modules.pop(module_on_path, None)
    assert errors == [f"hook on {module_on_path}: no"]


def test_a_module_already_imported_is_hooked_at_once() -> None:
    seen: list[str] = []
    PostImport(lambda what, error: None).when("json", lambda module: seen.append(module.__name__))
    assert seen == ["json"]


# ---------------------------------------------------------------------- whose file


def test_user_files_are_under_the_roots_and_no_library(tmp_path: Path) -> None:
    users = UserFiles(None, [str(tmp_path)])
    assert users(str(tmp_path / "train.py"))
    assert not users(str(tmp_path / "venv/lib/python3.11/site-packages/x.py"))
    assert not users(json.__file__)
    assert not users("<string>")
    assert not users("/elsewhere/x.py")
    users.add_generated(str(tmp_path / "cache"))
    assert not users(str(tmp_path / "cache/ab/cabc.py"))


def test_an_import_path_of_the_users_counts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = tmp_path / "extra"
    extra.mkdir()
    users = UserFiles(None, [str(tmp_path / "main")])
    assert not users(str(extra / "x.py"))
    monkeypatch.syspath_prepend(extra)
    users.add_import_roots()
    assert users(str(extra / "x.py"))


def test_the_agents_own_code_is_known() -> None:
    assert is_ours(from_dict.__code__.co_filename)
    assert not is_ours(__file__)


# ---------------------------------------------------------------------- instrumentation

GENERATED = '''# AOT ID: ['0_forward']
import torch
from torch._inductor.async_compile import AsyncCompile
async_compile = AsyncCompile()
cpp_fused_add_0 = async_compile.cpp_pybinding(['const float*', 'float*'], """
extern "C" void kernel() {}
""")

class Runner:
    def call(self, args):
        arg0, arg1 = args
        args.clear()
        buf0 = empty((4, 4))
        # [Provenance debug handles] cpp_fused_add_0:1
        cpp_fused_add_0(arg0, buf0)
        extern_kernels.mm(arg0, arg1, out=buf0)
        buf1 = torch.ops.aten.sort.default(buf0)
        return (buf0, buf1)

def benchmark_compiled_module():
    cpp_fused_add_0(1, 2)
'''


def test_every_call_of_a_cpp_kernel_is_wrapped_and_keeps_its_line() -> None:
    assert is_wrapper(GENERATED)
    assert cpp_kernels(ast.parse(GENERATED)) == {"cpp_fused_add_0"}
    code, sites = instrument(GENERATED, "/cache/ab/cabcd.py")
    lines = GENERATED.splitlines()
    assert [lines[line - 1].strip().split("(")[0] for line, _ in sites] == ["cpp_fused_add_0"]

    labels: list[tuple[str, tuple[Any, ...]]] = []

    def scope(label: str, tensors: tuple[Any, ...]) -> Any:
        labels.append((label, tensors))
        return contextlib.nullcontext()

    calls: list[Any] = []
    runner = next(c for c in code.co_consts if getattr(c, "co_name", "") == "Runner")
    call = next(c for c in runner.co_consts if getattr(c, "co_name", "") == "call")
    names = {
        SCOPE: scope,
        "empty": lambda shape: "buf0",
        "cpp_fused_add_0": lambda *a: calls.append(("cpp", a)),
        "extern_kernels": type("E", (), {"mm": staticmethod(lambda *a, out: calls.append(("mm", a, out)))}),
        "torch": type(
            "T",
            (),
            {"ops": type("O", (), {"aten": type("A", (), {"sort": type("S", (), {"default": lambda b: "sorted"})})})},
        ),
    }
    function = type(lambda: None)(call, names)
    assert function(None, ["a", "b"]) == ("buf0", "sorted")
    assert calls == [("cpp", ("a", "buf0")), ("mm", ("a", "b"), "buf0")]
    line = sites[0][0]
    assert labels == [(f"cpp_fused_add_0@{line}#cabcd", ("a", "buf0"))]


def test_a_kernel_file_or_a_triton_module_is_no_business_of_ours() -> None:
    assert not is_wrapper("import triton\n@triton.jit\ndef f(): pass\n")
    assert not is_wrapper("# AOT ID: ['0_forward']\nasync_compile.triton('x')\n")


# ---------------------------------------------------------------------- small things


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (None, 0),
        (SystemExit(), 0),
        (SystemExit(3), 3),
        (SystemExit(-1), 255),
        (SystemExit("message"), 1),
        (KeyboardInterrupt(), 130),
        (ValueError(), 1),
    ],
)
def test_exit_status_is_the_one_python_gives(error: BaseException | None, status: int) -> None:
    assert status_of(error) == status


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("torch", "error", "status", "how", "words"),
    [
        (
            False,
            ImportError("no parent\nmore"),
            1,
            USUAL,
            "the program failed before it imported torch: ImportError: no parent",
        ),
        (True, KeyError(), 1, USUAL, "the program failed before anything was recorded: KeyError"),
        (True, Mute(), 1, USUAL, "the program failed before anything was recorded: Mute"),
        (False, SystemExit(2), 2, USUAL, "the program ended with status 2 before it imported torch"),
        (False, None, 4, "os._exit", "the program ended with status 4 before it imported torch (os._exit)"),
        (False, None, 0, USUAL, "the program ended without importing torch"),
        (True, None, 0, USUAL, "nothing was recorded before the program ended"),
        (True, None, None, "signal SIGTERM", "nothing was recorded before the program ended (signal SIGTERM)"),
    ],
)
def test_a_program_without_a_recording_says_what_ended_it(
    torch: bool, error: BaseException | None, status: int | None, how: str, words: str
) -> None:
    assert why_nothing(torch, error, status, how) == words


@pytest.mark.parametrize(
    ("cut", "how", "words"),
    [
        (False, USUAL, "the program ended before it marked two steps: all of it after the import of torch is shown"),
        (
            True,
            USUAL,
            "the program ended; no steps were seen in it: the first 1.5 s after the import of torch are shown",
        ),
        (True, "os._exit", "the program ended (os._exit); no steps were seen in it: the first 1.5 s"),
    ],
)
def test_what_of_a_program_without_steps_is_shown(cut: bool, how: str, words: str) -> None:
    window = {"reason": "whole", "steps": [], "complete": True, "start_ns": 10**9, "end_ns": 25 * 10**8}
    take = Take(recording=cast(Any, None), lines=None, window=window, labels=[], order=3, cut=cut)
    recorder = SimpleNamespace(best=lambda: take, calls=SimpleNamespace(waited_for=lambda: None))
    assert why_not_steady(cast(Any, recorder), how).startswith(words)


def test_spec_ignores_what_it_does_not_know_and_refuses_what_is_wrong() -> None:
    assert from_dict({"run_dir": "r", "target": "t", "new": 1}).then == "continue"
    with pytest.raises(ValueError, match="then"):
        from_dict({"run_dir": "r", "target": "t", "then": "explode"})


def test_a_half_imported_module_of_torch_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    half = ModuleType("torch._ridgeline_probe")
    half.__spec__ = ModuleSpec(half.__name__, None)
    monkeypatch.setitem(sys.modules, half.__name__, half)
    assert not importing_torch()
    monkeypatch.setattr(half.__spec__, "_initializing", True, raising=False)
    assert importing_torch()


def test_likeness_of_op_counts() -> None:
    assert likeness({"mm": 10, "add": 20}, {"mm": 5, "add": 10}) == pytest.approx(1.0)
    assert likeness({"mm": 10}, {"add": 10}) == 0.0
    assert likeness({}, {"add": 10}) == 0.0


def test_run_folder_snapshots_are_named_by_content_and_written_once(tmp_path: Path) -> None:
    source = tmp_path / "train.py"
    source.write_text("print()\n")
    folder = RunFolder(str(tmp_path / "run"))
    row = folder.snapshot(str(source), "user")
    assert row is not None
    assert (tmp_path / "run" / row["snapshot"]).read_text() == "print()\n"
    assert folder.snapshot(str(source), "user") is row
    assert folder.snapshot(str(tmp_path / "missing.py"), "user") is None
    assert [r["path"] for r in folder.snapshots()] == [str(source)]


def test_run_folder_documents_are_strict_json_and_whole(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    with pytest.raises(ValueError):
        folder.write_json("x.json", {"a": float("nan")})
    assert not (tmp_path / "x.json").exists()
    folder.write_json("x.json", {"a": "ü"})
    assert json.loads((tmp_path / "x.json").read_text(encoding="utf-8")) == {"a": "ü"}
    (tmp_path / "plain").write_text("trace")
    folder.compress(str(tmp_path / "plain"), "trace.json.gz")
    assert gzip.decompress((tmp_path / "trace.json.gz").read_bytes()) == b"trace"


def test_progress_is_one_json_object_a_line(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path))
    folder.progress("starting", "x")
    folder.progress("recording", step=4)
    folder.progress("recording", step=5)  # within a quarter second: not written
    folder.progress("saving")
    rows = [json.loads(line) for line in (tmp_path / "progress.jsonl").read_text().splitlines()]
    assert [(row["phase"], row["step"]) for row in rows] == [("starting", None), ("recording", 4), ("saving", 5)]


def test_the_configuration_of_a_tuned_kernel_comes_from_its_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    def tuner(file: str, *configs: Any) -> SimpleNamespace:
        launchers = [SimpleNamespace(config=config, bin=None) for config in configs]
        return SimpleNamespace(filename=file, launchers=launchers, compile_results=[])

    chosen = SimpleNamespace(kwargs={"XBLOCK": 8, "odd": object()}, num_warps=4, num_stages=1, found_by_coordesc=True)
    module = SimpleNamespace(a=tuner("/c/ka.py", chosen), b=tuner("/c/kb.py", chosen, chosen), c=tuner("/c/kc.py"), d=3)
    cache = SimpleNamespace(PyCodeCache=SimpleNamespace(modules=[module]))
    monkeypatch.setitem(sys.modules, "torch._inductor.codecache", cache)  # type: ignore[arg-type]
    assert kernels.tuned() == {"/c/ka.py": {"XBLOCK": 8, "num_warps": 4, "num_stages": 1, "found_by_coordesc": True}}


def test_what_the_allocator_counts_is_kept_with_its_device() -> None:
    from types import SimpleNamespace

    from ridgeline.agent import machine

    stats = {
        "allocated_bytes.all.peak": 5,
        "reserved_bytes.all.peak": 8,
        "num_alloc_retries": 2,
        "num_ooms": 0,
        "active.all.current": 1,
    }
    counted = machine._memory(SimpleNamespace(memory_stats=lambda index: stats), 0)
    assert counted == {"peak_allocated": 5, "peak_reserved": 8, "retries": 2, "out_of_memory": 0}

    def refuse(index: int) -> dict[str, int]:
        raise RuntimeError("cudaMallocAsync does not track this")

    assert machine._memory(SimpleNamespace(memory_stats=refuse), 0) == {}
