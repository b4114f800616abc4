"""A run against the one before it, the trace in Perfetto, and what benchmarks say."""

from __future__ import annotations

import asyncio
import gzip
import json
import urllib.request

import pytest
from pygls.exceptions import JsonRpcException

from lsp_builder import MODEL, Project, line_row
from lsp_client import Session


def with_gelu_times(project: Project, factor: float):  # type: ignore[no-untyped-def]
    document = project.document()
    gelu = document.kernels[1]
    for name in ("total_us", "min_us", "q1_us", "median_us", "q3_us", "max_us"):
        setattr(gelu, name, getattr(gelu, name) * factor)
    line = next(line for line in document.lines if line.kernels == ["k-gelu"])
    line.device_us *= factor
    line.unsplit_us *= factor
    return document


async def test_lines_say_how_they_changed_since_the_run_before(session: Session, project: Project) -> None:
    project.add_run(name="20261129-100000")
    project.add_run(with_gelu_times(project, 0.5), name="20261129-110000")
    uri = session.open(project.model)
    gelu = project.line_of("gelu(h)")
    await session.lenses(uri)
    for _ in range(100):
        lenses = await session.lenses(uri)
        if "▼" in lenses[gelu]:
            break
        await asyncio.sleep(0.1)
    assert lenses[gelu].startswith("2.05 ms/step ▼ 50 % · ")
    assert "▼" not in lenses[project.line_of("self.first(x)")], "nothing is claimed of a line that did not change"


async def test_of_lines_that_read_alike_only_the_changed_one_says_so(vscode: Session, project: Project) -> None:
    text = "        h = torch.nn.functional.gelu(h)\n"
    project.model.write_text(MODEL.replace(text, text + "        h = h + x\n" + text), encoding="utf-8")
    first, second = [i for i, line in enumerate(project.text("model").split("\n")) if "gelu(h)" in line]

    def run(name: str, factor: float, times_us: list[float]) -> None:
        document = with_gelu_times(project, factor)
        again = line_row(str(project.model), second + 1, text.strip(), 41_000.0, 41_000.0, 16.4, [], [])
        document.lines.append(again)
        for line, device_us in zip([row for row in document.lines if "gelu" in (row.text or "")], times_us):
            line.device_us = line.unsplit_us = device_us
        project.add_run(document, name=name)

    run("20261129-100000", 1.0, [41_000.0, 41_000.0])
    run("20261129-110000", 0.75, [41_000.0, 20_500.0])
    uri = vscode.open(project.model)
    for _ in range(100):
        lenses = await vscode.lenses(uri)
        if "▼" in lenses[second]:
            break
        await asyncio.sleep(0.1)
    assert "▼ 50 %" in lenses[second]
    assert "▼" not in lenses[first]


async def test_the_comparison_is_a_document(vscode: Session, project: Project) -> None:
    old = project.add_run(name="20261129-100000")
    uri = vscode.open(project.model)
    with pytest.raises(JsonRpcException):
        await vscode.request("ridgeline/compare", {"uri": uri})
    new = project.add_run(with_gelu_times(project, 2.0), name="20261129-110000")
    found = await vscode.request("ridgeline/compare", {"before": old.id, "after": new.id})
    kernel = next(change for change in found["kernels"] if "gelu" in change["label"])
    assert (kernel["verdict"], kernel["before_us"], kernel["after_us"]) == ("slower", 4100.0, 8200.0)
    assert (found["before_run"]["id"], found["after_run"]["id"]) == (old.id, new.id)


async def tree_with(session: Session, words: str) -> dict[str, list[str]]:
    """Rows of the tree by group, once they hold ``words``."""
    for _ in range(200):
        groups = (await session.request("ridgeline/tree", {}))["groups"]
        rows = {g["id"]: [f"{i['label']}: {i['description']}" for i in g["items"]] for g in groups}
        rows["against"] = [g["description"] for g in groups if g["id"] == "changes"]
        if words in str(rows):
            return rows
        await asyncio.sleep(0.05)
    raise AssertionError(f"{words} not in {rows}")


async def test_lens_hover_and_tree_tell_change_from_noise(vscode: Session, project: Project) -> None:
    before = project.document()
    before.totals.plain_step_us = 25_000.0
    project.add_run(before, name="20261129-100000")
    after = with_gelu_times(project, 0.5)
    after.totals.plain_step_us = 22_900.0
    after.findings = after.findings[1:]
    project.add_run(after, name="20261129-110000")
    uri = vscode.open(project.model)
    rows = await tree_with(vscode, "▼")
    assert rows["changes"][0] == "Step: 25.0 → 22.9 ms ▼ 8 %" or rows["changes"][0] == "Step: 25.0 ms → 22.9 ms ▼ 8 %"
    assert any(row.startswith("Gone: hidden-sync") for row in rows["changes"])
    assert any("▼ 50 %" in row for row in rows["kernels"] if "gelu" in row)
    assert all("▼" not in row for row in rows["kernels"] if "gelu" not in row), "nothing is claimed inside the noise"
    assert any("▼ 50 %" in row for row in rows["lines"])
    hover = await vscode.hover(uri, project.line_of("gelu(h)")) or ""
    assert hover.count("▼ 50 %") == 2, "the line's change, and its kernel's"
    assert "against the run" in hover.splitlines()[-1]
    assert "▼" not in (await vscode.hover(uri, project.line_of("self.first(x)")) or "").replace("▲▼", "")


async def test_wall_time_of_other_settings_is_refused_in_the_tree(vscode: Session, project: Project) -> None:
    before = project.document()
    before.source.recorded_with.stacks = True
    project.add_run(before, name="20261129-100000")
    project.add_run(with_gelu_times(project, 0.5), name="20261129-110000")
    vscode.open(project.model)
    rows = await tree_with(vscode, "Wall time is not compared")
    assert not any(row.startswith("Step:") for row in rows["changes"])
    assert any(row.startswith("Device time: 14.1 ms → 12.1 ms/step ▼ 15 %") for row in rows["changes"]), rows["changes"]


async def test_a_pinned_baseline_is_compared_with_until_it_is_unpinned(session: Session, project: Project) -> None:
    first = project.add_run(name="20261129-100000")
    project.add_run(with_gelu_times(project, 2.0), name="20261129-110000")
    project.add_run(with_gelu_times(project, 0.5), name="20261129-120000")
    uri, gelu = session.open(project.model), project.line_of("gelu(h)")

    async def becomes(words: str) -> None:
        for _ in range(100):
            if words in (await session.lenses(uri))[gelu]:
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"{words} not in {await session.lenses(uri)}")

    await becomes("▼ 75 %")
    assert (await session.command("ridgeline.server.pin", {"run": first.id}))["pinned"] is True
    assert first.pinned.exists()
    await becomes("▼ 50 %")
    assert "against the pinned run" in (await session.hover(uri, gelu) or "")
    # It outlives the session: the mark is in the run's own folder.
    again = await Session.start(session.profile, project.workspace, store=project.store)
    again.open(project.model)
    for _ in range(100):
        if "▼ 50 %" in (await again.lenses(uri))[gelu]:
            break
        await asyncio.sleep(0.05)
    else:
        raise AssertionError(await again.lenses(uri))
    unpin = next(action for action in await again.actions(uri, gelu) if "(unpin)" in action["title"])
    await again.command(unpin["command"]["command"], *unpin["command"]["arguments"])
    assert not first.pinned.exists()
    await again.stop()
    # The other window notices.
    await becomes("▼ 75 %")


async def test_the_trace_is_served_with_the_kernel_selected(vscode: Session, project: Project) -> None:
    """UP-112: one click, on loopback alone; names with spaces and letters beyond ASCII are in ``test_perfetto.py``."""
    pytest.importorskip("numpy")
    folder = project.add_run()
    event = {
        "ph": "X",
        "cat": "kernel",
        "name": "triton_poi_fused_gelu_0",
        "pid": 0,
        "tid": 7,
        "ts": 1000.0,
        "dur": 4100.0,
    }
    folder.trace.write_bytes(gzip.compress(json.dumps({"traceEvents": [event]}).encode()))
    uri = vscode.open(project.model)
    hover = await vscode.hover(uri, project.line_of("gelu(h)"))
    assert "command:ridgeline.openTrace" in (hover or "")
    found = await vscode.command("ridgeline.server.openTrace", {"uri": uri, "kernel": "k-gelu"})
    assert found["path"] == str(folder.trace)
    assert found["slice"]["ts_us"] == 1000.0
    assert found["url"].startswith("http://127.0.0.1:")
    with urllib.request.urlopen(found["url"], timeout=10) as page:
        assert page.status == 200


async def test_without_a_trace_that_is_said(vscode: Session, project: Project) -> None:
    project.add_run()
    assert await vscode.command("ridgeline.server.openTrace", {"uri": vscode.open(project.model)}) is None
    assert any("no trace" in message.message for message in vscode.client.messages)
