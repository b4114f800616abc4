"""The overview's data: the page of a run, and the way from what it names back to the code."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from pygls.exceptions import JsonRpcException

from lsp_builder import Project, kernel_row
from lsp_client import Session
from ridgeline.profile import Finding, Slice, SourceRef


def overwrite(profile: Path, data: bytes) -> None:
    """As large and as old as it was, so that its index still seems to hold."""
    was = profile.stat()
    profile.write_bytes(data.ljust(was.st_size))
    os.utime(profile, ns=(was.st_atime_ns, was.st_mtime_ns))


async def test_the_page_of_the_newest_run_and_its_places(vscode: Session, project: Project) -> None:
    run = project.add_run()
    found = await vscode.request("ridgeline/overview", {})
    assert found["run"]["id"] == run.id
    assert not set("<>&\n") & set(found["page"]), "it may stand in an element"
    page = json.loads(found["page"])
    gelu = next(kernel for kernel in page["kernels"] if "gelu" in kernel["name"])
    places = {row["place"]: row["at"] for row in found["places"]}
    assert set(gelu["places"]) <= set(places)
    assert str(project.root) not in found["page"], "the page itself holds no absolute path"
    line = project.line_of("gelu(h)")
    at = places[gelu["places"][0]]
    assert at == [[str(project.model), line + 1]]

    uri = vscode.open(project.model)
    await vscode.hover(uri, line)
    vscode.edit(uri, 2, (0, 0, 0, 0, "\n\n"))
    (here,) = await vscode.request("ridgeline/places", {"run": run.id, "places": at})
    assert (here["uri"], here["range"]["start"]["line"]) == (uri, line + 2), "as the lines are numbered now"


async def test_two_runs_are_compared(vscode: Session, project: Project) -> None:
    project.add_run(name="20261129-100000")
    new = project.add_run(name="20261129-110000")
    found = await vscode.request("ridgeline/overview", {"run": new.id})
    assert json.loads(found["page"])["comparison"]["kernels"]


async def test_an_earlier_run_that_is_damaged_does_not_hide_this_one(vscode: Session, project: Project) -> None:
    old = project.add_run(name="20261129-100000")
    new = project.add_run(name="20261129-110000")
    await vscode.request("ridgeline/overview", {"run": new.id})
    overwrite(old.profile, b"x")
    found = await vscode.request("ridgeline/overview", {"run": new.id})
    assert json.loads(found["page"])["kernels"]


async def test_a_run_that_is_damaged_is_a_message(vscode: Session, project: Project) -> None:
    run = project.add_run()
    await vscode.request("ridgeline/overview", {})
    overwrite(run.profile, b'{"schema": 1, "kernels": 3, "source": {"kind": "trace", "path": "t"}}')
    with pytest.raises(JsonRpcException, match=r"cannot be shown: profile\.kernels"):
        await vscode.request("ridgeline/overview", {"run": run.id})


async def test_without_a_run_there_is_nothing(vscode: Session) -> None:
    found = await vscode.request("ridgeline/overview", {})
    assert found == {"run": None, "page": None, "places": []}


async def test_a_link_in_the_trace_shows_the_line_and_a_forwarded_page_answers(
    vscode: Session, project: Project
) -> None:
    """Of any kernel, not of the hottest alone; under another name only once the editor has said it."""
    pytest.importorskip("numpy")
    line = project.line_of("gelu(h)")
    at = SourceRef(file=str(project.model), line=line + 1)
    rows = [
        kernel_row(f"k-{n}", f"kernel_{n}", 1e6 - n, source=[at], slice=Slice(ts_us=1000.0, dur_us=4100.0))
        for n in range(300)
    ]
    run = project.add_run(project.document(kernels=rows))
    event = {"ph": "X", "cat": "kernel", "name": "kernel_299", "pid": 0, "tid": 7, "ts": 1000.0, "dur": 4100.0}
    run.trace.write_bytes(gzip.compress(json.dumps({"traceEvents": [event]}).encode()))
    uri = vscode.open(project.model)
    found = await vscode.command("ridgeline.server.openTrace", {"run": run.id, "kernel": "k-299"})
    assert f"ts={1_000_000}" in await get(found["url"])
    with pytest.raises(urllib.error.HTTPError, match="403"):
        await get(found["url"], host="me.example")
    vscode.client.protocol.notify("ridgeline/traceForwarded", {"url": found["url"], "host": "me.example"})
    for _ in range(100):
        try:
            await get(found["url"], host="me.example")
            break
        except urllib.error.HTTPError:
            await asyncio.sleep(0.1)
    await get(found["url"], host="me.example")
    await get(found["url"] + "s/k-299")
    (shown,) = await vscode.until(lambda: vscode.client.shown_documents, what="the line is shown")
    assert (shown.uri, shown.selection.start.line) == (uri, line)


async def get(url: str, host: str | None = None) -> str:
    request = urllib.request.Request(url, headers={"Host": host} if host else {})

    def read() -> str:
        with urllib.request.urlopen(request, timeout=10) as page:
            text: str = page.read().decode()
            return text

    return await asyncio.to_thread(read)


async def test_lines_and_findings_of_the_tree_know_the_kernel_to_open_a_trace_at(
    vscode: Session, project: Project
) -> None:
    made = project.document()
    line = project.line_of("gelu(h)") + 1
    made.findings = [
        Finding(
            code="autotune-candidate", title="a", severity="information", message="m", evidence={"kernel": "k-addmm"}
        ),
        Finding(code="hidden-sync", title="b", severity="warning", message="m", file=str(project.model), line=line),
        Finding(code="idle", title="c", severity="warning", message="m", evidence={"kernel": "gone"}),
    ]
    project.add_run(made)
    tree = await vscode.request("ridgeline/tree", {})
    items = {group["id"]: group["items"] for group in tree["groups"]}
    assert {item["label"]: item["kernel"] for item in items["findings"]} == {"a": "k-addmm", "b": "k-gelu", "c": None}
    assert {item["label"]: item["kernel"] for item in items["lines"]}[f"model.py:{line}"] == "k-gelu"
