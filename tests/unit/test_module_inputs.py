"""What a generated module is profiled with is read from its text; an editor and the command line hand it on."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import bench_modules as modules
from ridgeline.agent.generated import is_generated
from ridgeline.agent.spec import from_dict
from ridgeline.bench.module_inputs import SizeError, of_file
from ridgeline.cli_profile import Request
from ridgeline.lsp.requests import run_spec
from ridgeline.lsp.settings import Settings
from ridgeline.runs.spec import RunSpec

DYNAMIC = (
    modules.CPP.replace("(2, 17), (17, 1)", "(s0, 17), (17, 1)")
    .replace("arg0_1, = args", "arg0_1, arg1_1 = args")
    .replace("    args.clear()\n", "    args.clear()\n    s0 = arg0_1\n")
    .replace("assert_size_stride(arg0_1", "assert_size_stride(arg1_1")
    .replace("cpp_fused_sin_0(arg0_1", "cpp_fused_sin_0(arg1_1")
) + (
    "\n\ndef get_args():\n    from torch._dynamo.testing import rand_strided\n    arg0_1 = 2\n"
    "    arg1_1 = rand_strided((2, 17), (17, 1), device='cpu', dtype=torch.float32)\n    return [arg0_1, arg1_1]\n"
)


def test_sizes_that_are_given_reach_every_input(tmp_path: Path) -> None:
    path = tmp_path / "c.py"
    path.write_text(DYNAMIC)
    plain = of_file(path, {})
    assert plain is not None
    assert [plain["inputs"][0], plain["inputs"][1]["size"]] == [2, [2, 17]]
    sized = of_file(path, {"s0": 300})
    assert sized is not None
    assert [sized["inputs"][0], sized["inputs"][1]["size"], sized["inputs"][1]["stride"]] == [300, [300, 17], [17, 1]]
    with pytest.raises(SizeError, match=r"has no such size; it has s0"):
        of_file(path, {"s1": 3})


def test_anything_else_is_left_to_itself(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\n")
    assert of_file(script, {}) is None
    assert of_file(tmp_path / "none.py", {}) is None
    assert of_file(tmp_path, {}) is None
    with pytest.raises(SizeError, match="is none"):
        of_file(script, {"s0": 3})


def test_the_request_carries_them_to_the_agent(tmp_path: Path) -> None:
    path = tmp_path / "c.py"
    path.write_text(DYNAMIC)
    spec = RunSpec(target=str(path), python="/bin/sh", cwd=str(tmp_path), module_inputs=of_file(path, {}))
    again = RunSpec.from_json(spec.to_json())
    assert again.module_inputs == spec.module_inputs
    agent = from_dict(json.loads(json.dumps(again.agent_spec(tmp_path))))
    assert agent.module_inputs == spec.module_inputs
    assert from_dict({"run_dir": "/r", "target": "t.py"}).module_inputs is None  # an older supervisor


def request(target: Path, **changes: Any) -> Request:
    values: dict[str, Any] = {
        "target": str(target), "args": [], "module": False, "steps": None, "warmup": None, "after": None,
        "then": "stop", "device": "auto", "stacks": False, "memory": False, "lengths": False, "lines": True,
        "python": sys.executable, "cwd": None, "env": [], "run_dir": None, "format": "text", "output": None, "quiet": True,
    }  # fmt: skip
    return Request(**{**values, **changes})


def test_a_module_is_not_compiled_in_a_folder_with_a_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """UP-65: Inductor's C++ compiler would be given a split path. A program's own cache folder is left alone."""
    module, script = tmp_path / "c.py", tmp_path / "train.py"
    module.write_text(DYNAMIC)
    script.write_text("import torch\n")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/tmp/a b/cache")
    assert " " not in request(module).spec().env["TORCHINDUCTOR_CACHE_DIR"]
    assert "TORCHINDUCTOR_CACHE_DIR" not in request(script).spec().env
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/tmp/\u00e4b/cache")  # letters outside ASCII do no harm
    assert "TORCHINDUCTOR_CACHE_DIR" not in request(module).spec().env
    named = request(module, env=["TORCHINDUCTOR_CACHE_DIR=/tmp/back\\slash"]).spec()
    assert "\\" not in named.env["TORCHINDUCTOR_CACHE_DIR"]
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
    monkeypatch.setenv("TMPDIR", "/tmp/a b")  # where the default cache lies, and the compiler's own files
    assert request(module).spec().env == {"TMPDIR": "/tmp"}
    assert request(script).spec().env == {}
    wanted = {"python": sys.executable, "analysisPython": sys.executable}
    assert run_spec(wanted, module, [tmp_path], Settings()).env == {"TMPDIR": "/tmp"}
    assert run_spec(wanted, script, [tmp_path], Settings()).env == {}


def test_generated_modules_are_known_by_their_content() -> None:
    assert is_generated(DYNAMIC.encode())
    from_cpp = "\n\nimport torch\nfrom torch._inductor.codecache import CppWrapperCodeCache\n"
    assert is_generated((from_cpp + "inductor_entry = CppWrapperCodeCache.load_pybinding(\n)\n").encode())
    assert not is_generated(b"import torch\nprint('inductor_entry = CppWrapperCodeCache.')\n")
