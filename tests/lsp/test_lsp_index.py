"""The index by source file: what it keeps, what it sums, and when it is not believed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lsp_builder import Project, publish
from ridgeline import index
from ridgeline.index.structure import bound_of


def kernel(bound: str, total_us: float, source: str = "estimated") -> dict[str, Any]:
    return {"bound": bound, "total_us": total_us, "bound_source": source}


@pytest.mark.parametrize(
    ("kernels", "bound", "estimated"),
    [
        ([kernel("memory", 80), kernel("compute", 20)], "memory", True),
        ([kernel("memory", 79), kernel("compute", 21)], "mixed", True),
        ([kernel("memory", 100, "counters")], "memory", False),
        ([kernel("memory", 70), kernel("unknown", 30)], None, False),
        ([kernel("memory", 81), kernel("unknown", 19)], "memory", True),
        ([], None, False),
        ([kernel("memory", 0.0)], None, False),
    ],
)
def test_a_line_has_a_bound_where_four_fifths_of_its_time_agree(
    kernels: list[dict[str, Any]], bound: str | None, estimated: bool
) -> None:
    found = bound_of(kernels)
    assert (found["bound"], found["estimated"]) == (bound, estimated)


def test_files_statements_and_functions(project: Project) -> None:
    folder = project.add_run()
    manifest = index.read_manifest(folder.path)
    assert manifest is not None
    assert (manifest["steps"], manifest["step_us"], manifest["counts"]["kernels"]) == (10, 25_000.0, 2)
    entry = next(entry for entry in manifest["files"] if entry["path"] == str(project.model))
    part = index.read_part(folder.path, entry["key"])
    assert part is not None
    ends = {row["line"]: row.get("end") for row in part["rows"]}
    assert ends[project.line_of("torch.cat(") + 1] == project.line_of("        )") + 1
    (function,) = part["functions"]
    assert function["name"] == "forward"
    assert function["device_us"] == pytest.approx(50_000 + 41_000 + 5_000 + 50_000)
    assert function["step_share_pct"] == pytest.approx(20.0 + 16.4 + 2.0 + 20.0), "shared launches count once"
    generated = next(entry for entry in manifest["files"] if entry["path"] == str(project.files["module"]))
    places = index.read_part(folder.path, generated["key"])
    assert places is not None
    assert {place["kernel"] for place in places["places"]} == {"k-gelu", "k-addmm"}


def test_another_document_makes_the_index_stale(project: Project) -> None:
    folder = project.add_run()
    assert index.read_manifest(folder.path) is not None
    document = project.document()
    document.kernels[0].total_us += 1
    publish(document, folder, indexed=False)
    assert index.read_manifest(folder.path) is None
    index.build(folder.path)
    assert index.read_manifest(folder.path) is not None


def test_it_is_rebuilt_from_broken_and_refused_for_unknown(project: Project) -> None:
    folder = project.add_run()
    (folder.path / "index" / "manifest.json").write_text("{", encoding="utf-8")
    assert index.read_manifest(folder.path) is None
    index.build(folder.path)
    folder.profile.write_text(json.dumps({"schema": 2}), encoding="utf-8")
    with pytest.raises(index.IndexUnreadable, match="schema 2"):
        index.build(folder.path)
    folder.profile.write_text("{", encoding="utf-8")
    with pytest.raises(index.IndexUnreadable):
        index.build(folder.path)


def test_no_path_of_a_document_leads_out_of_its_folder(project: Project) -> None:
    folder = project.add_run()
    (project.root / "secret.py").write_text("secret", encoding="utf-8")
    for name in ("../../../secret.py", str(project.root / "secret.py"), "files/../../../../secret.py"):
        assert index.snapshot_text(folder.path, {"snapshot": name}) is None
    assert index.snapshot_text(folder.path, {"snapshot": "files/model.py"}) == project.text("model")
    assert index.read_part(folder.path, "../profile.json") is None


def test_a_text_that_is_no_python_has_no_functions(project: Project) -> None:
    project.model.write_text("def broken(:\n" + project.text("model"), encoding="utf-8")
    folder = project.add_run()
    manifest = index.read_manifest(folder.path)
    assert manifest is not None
    entry = next(entry for entry in manifest["files"] if entry["path"] == str(project.model))
    part = index.read_part(folder.path, entry["key"])
    assert part is not None
    assert part["functions"] == []
    assert len(part["rows"]) == 5
