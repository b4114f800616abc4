"""``ridgeline doctor``: each check at its edge, and the command on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ridgeline import doctor

FACTS: dict[str, Any] = {
    "python": "3.12.1",
    "version": [3, 12, 1],
    "executable": "/venv/bin/python",
    "include": "/nowhere",
    "torch": "2.13.0+cu130",
    "torch_version": [2, 13],
    "torch_cuda": "13.0",
    "devices": ["NVIDIA H200"],
    "cupti": True,
    "triton": "3.7.1",
}


@pytest.mark.parametrize(
    ("check", "changes", "status", "words"),
    [
        (doctor._interpreter, {}, "ok", "3.12.1"),
        (doctor._interpreter, {"version": [3, 9, 0]}, "error", "3.10"),
        (doctor._torch, {}, "ok", "2.13.0"),
        (doctor._torch, {"torch_version": [2, 4]}, "warning", "2.9"),
        (doctor._torch, {"torch": None, "torch_error": "ImportError: libc10.so"}, "error", "libc10"),
        (doctor._cuda, {}, "ok", "H200"),
        (doctor._cuda, {"devices": [], "cuda_error": "no driver"}, "warning", "no driver"),
        (doctor._cuda, {"devices": [], "torch_cuda": None}, ("absent", "warning"), "without CUDA"),
        (doctor._cuda, {"torch": None}, "absent", "torch"),
        (doctor._cupti, {}, "ok", "recorded"),
        (doctor._cupti, {"cupti": False}, "error", "nsys"),
        (doctor._cupti, {"devices": []}, "absent", "no GPU"),
        (doctor._triton, {}, "ok", "3.7.1"),
        (doctor._triton, {"triton": None, "triton_error": "No module"}, "error", "pip install triton"),
        (doctor._triton, {"triton": None, "devices": []}, "absent", "GPU only"),
        (doctor._headers, {}, "warning", "python3.12-dev"),
    ],
)
def test_a_check_at_its_edge(check: Any, changes: dict[str, Any], status: str | tuple[str, ...], words: str) -> None:
    found = check(FACTS | changes)
    assert found.status in ((status,) if isinstance(status, str) else status)
    assert words in f"{found.found} {found.mend}"
    if found.status == "error":
        assert found.mend, "an error comes with its mend"


def test_a_missing_compiler_is_named_with_its_mend(tmp_path: Path) -> None:
    found = doctor._compiler({"PATH": str(tmp_path)})
    assert (found.status, "install g++" in (found.mend or "")) == ("warning", True)
    assert "CXX=mine" in doctor._compiler({"PATH": str(tmp_path), "CXX": "mine"}).found


def test_a_space_in_the_cache_path_is_an_error(tmp_path: Path) -> None:
    assert doctor._cache({"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "a b")}, {}).status == "error"
    assert doctor._cache({"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}, {}).status in ("ok", "warning")


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """A file in the way: also a superuser cannot write below it."""
    (tmp_path / "file").touch()
    assert doctor._runs(tmp_path / "file" / "runs").status == "error"
    assert doctor._runs(tmp_path / "new" / "runs").status in ("ok", "warning")


def test_what_is_no_python_is_an_error_and_the_rest_is_still_checked(tmp_path: Path) -> None:
    checks = doctor.examine("/bin/false", cwd=str(tmp_path), env=dict(os.environ), run_root=tmp_path)
    by_name = {check.name: check for check in checks}
    assert by_name["interpreter"].status == "error"
    assert "C++ compiler" in by_name


@pytest.mark.torch
def test_the_command_in_json_and_text(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ridgeline.cli", "doctor", "--python", sys.executable, "--run-dir", str(tmp_path)]
    done = subprocess.run([*command, "--format", "json"], capture_output=True, text=True, check=False)
    data = json.loads(done.stdout)
    assert done.returncode == (0 if data["ok"] else 1)
    names = [check["name"] for check in data["checks"]]
    assert names[:4] == ["system", "Ridgeline runs on", "interpreter", "torch"]
    assert {"GPU", "CUPTI", "Triton", "C++ compiler", "Python headers", "compile cache", "runs"} <= set(names)
    torch = next(check for check in data["checks"] if check["name"] == "torch")
    assert torch["status"] == "ok"
    text = subprocess.run(command, capture_output=True, text=True, check=False)
    assert torch["found"] in text.stdout
    assert "\x1b" not in text.stdout
