"""The profile document: its schema is public, its JSON strict, its tables pandas."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from ridgeline import Profile, profile_io
from ridgeline.profile import Kernel, Line, Op, ProfileDocument, Source
from ridgeline.profile_io import UnreadableError

SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "profile.schema.json"


def document() -> ProfileDocument:
    kernel = Kernel(
        id="a1", name="triton_poi_fused_add_0", symbol="triton_poi_fused_add_0", device=0, category="pointwise", count=2,
        total_us=10.0, min_us=4.0, q1_us=4.5, median_us=5.0, q3_us=5.5, max_us=6.0,
    )  # fmt: skip
    return ProfileDocument(
        source=Source(kind="run", path="train.py"),
        kernels=[kernel],
        lines=[Line(file="train.py", line=3, device_us=10.0, unsplit_us=10.0, kernels=["a1"])],
        ops=[Op(name="aten::add", count=2, self_cpu_us=3.0, cpu_us=4.0)],
    )


def test_the_published_schema_is_that_of_the_types() -> None:
    published = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert published == json.loads(json.dumps(profile_io.json_schema())), "run scripts/schema.py"


def test_every_field_of_the_contract_is_there() -> None:
    names = set(json.loads(profile_io.to_json(document())))
    assert names == {
        "schema", "source", "totals", "files", "quality", "devices", "categories", "own_categories", "kernels", "lines", "phases", "idle",
        "compile_events", "padding", "ops", "ranges", "memory", "unattributed", "steps", "modules", "findings",
    }  # fmt: skip


def test_a_figure_that_is_not_finite_becomes_null() -> None:
    made = document()
    made.kernels[0].gb_per_s = math.nan
    made.kernels[0].flops = math.inf
    data = profile_io.to_json(made)

    def refuse(text: str) -> Any:
        raise AssertionError(text)

    (kernel,) = json.loads(data, parse_constant=refuse)["kernels"]
    assert kernel["gb_per_s"] is None
    assert kernel["flops"] is None


def test_fields_of_a_newer_writer_are_ignored_a_newer_schema_is_refused() -> None:
    decoded = json.loads(profile_io.to_json(document()))
    decoded["added_later"] = 1
    assert profile_io.from_json(json.dumps(decoded).encode()).kernels[0].id == "a1"
    decoded["schema"] = 2
    with pytest.raises(UnreadableError, match="schema 2"):
        profile_io.from_json(json.dumps(decoded).encode())
    with pytest.raises(UnreadableError, match=r"schema 2.*update Ridgeline"):
        profile_io.from_json(b'{"schema": 2, "source": "renamed", "kernels": {}}')


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"kernels": []}', b"\xff\xfe"])
def test_what_is_no_profile_is_refused_in_one_line(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "profile.json").write_bytes(data)
    with pytest.raises(UnreadableError) as caught:
        profile_io.read(tmp_path)
    assert "\n" not in str(caught.value)
    assert "profile.json" in str(caught.value)


def test_a_notebook_gets_data_frames(tmp_path: Path) -> None:
    profile_io.write(document(), tmp_path / "profile.json")
    profile = Profile.load(tmp_path)
    assert profile.kernels.loc[0, "total_us"] == 10.0
    assert profile.lines["device_us"].sum() == 10.0
    assert list(profile.ops["name"]) == ["aten::add"]


def test_writing_is_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "profile.json"
    profile_io.write(document(), target)
    before = target.read_bytes()
    with pytest.raises(TypeError):
        profile_io.write_atomically(target, object())  # type: ignore[arg-type]
    assert target.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["profile.json"]
