"""The history of runs: where they are, which is meant, what is pruned, what a watcher sees."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path

import pytest

from ridgeline.runs.folder import RunFolder, RunInfo, process_start
from ridgeline.runs.spec import RunSpec, SpecError
from ridgeline.runs.store import KEPT_PER_TARGET, Store, StoreError, Watcher, default_root, group_name, resolve_run


def spec(target: str, cwd: Path, **options: object) -> RunSpec:
    return RunSpec(target=target, python="/usr/bin/python3", cwd=str(cwd), **options)  # type: ignore[arg-type]


def finished(store: Store, target: str, cwd: Path, **record: object) -> RunFolder:
    folder = store.create(spec(target, cwd))
    folder.profile.write_text("{}")
    folder.update(state="finished", **record)
    return folder


def test_the_root_is_the_variables_or_the_users_state_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RIDGELINE_RUN_DIR", str(tmp_path / "here"))
    assert default_root() == tmp_path / "here"
    monkeypatch.delenv("RIDGELINE_RUN_DIR")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert default_root() == tmp_path / "state" / "ridgeline" / "runs"


def test_any_path_to_a_script_names_one_group_and_modules_are_told_apart_by_folder(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "train.py").touch()
    (tmp_path / "link.py").symlink_to("train.py")
    direct = group_name("train.py", False, str(tmp_path))
    assert direct == group_name("../train.py", False, str(tmp_path / "sub"))
    assert direct.partition("-")[2] == group_name(str(tmp_path / "link.py"), False, "/").partition("-")[2]
    assert group_name("pkg.train", True, str(tmp_path)) != group_name("pkg.train", True, str(tmp_path / "sub"))
    assert group_name("a/b c?.py", False, "/").startswith("b_c-")


def test_a_run_folder_is_private(tmp_path: Path) -> None:
    folder = Store(tmp_path).create(spec("t.py", tmp_path))
    assert folder.path.stat().st_mode & 0o077 == 0


def test_twenty_runs_of_a_target_are_kept_pinned_and_active_ones_always(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    pinned = finished(store, "t.py", tmp_path)
    store.pin(pinned)
    active = store.create(spec("t.py", tmp_path))
    me = {"pid": os.getpid(), "start": process_start(os.getpid()), "host": os.uname().nodename}
    active.update(state="running", supervisor=me)
    other = finished(store, "other.py", tmp_path)
    made = [finished(store, "t.py", tmp_path) for _ in range(KEPT_PER_TARGET + 5)]
    kept = {info.folder.path for info in store.runs_of_target("t.py", cwd=str(tmp_path))}
    assert pinned.path in kept
    assert active.path in kept
    assert other.path.exists()
    assert made[-1].path in kept
    assert made[0].path not in kept
    assert len(kept) == KEPT_PER_TARGET + 2
    store.pin(pinned, pinned=False)
    assert pinned.path in store.prune(pinned.path.parent)


def test_pruning_touches_nothing_that_is_not_a_run(tmp_path: Path) -> None:
    """``RIDGELINE_RUN_DIR`` may be a folder with the user's own things in it."""
    store = Store(tmp_path)
    mine = tmp_path / "precious" / "data"
    mine.mkdir(parents=True)
    group = finished(store, "t.py", tmp_path).path.parent
    (group / "notes").mkdir()
    assert store.prune(group, keep=0)
    assert store.prune(tmp_path / "precious", keep=0) == []
    assert mine.exists()
    assert (group / "notes").exists()


def test_runs_are_listed_newest_first_and_found_by_the_files_they_name(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    model = tmp_path / "model.py"
    old = finished(store, "a.py", tmp_path, files=[str(model)])
    new = finished(store, "b.py", tmp_path, files=[str(model)])
    unfinished = store.create(spec("c.py", tmp_path))
    unfinished.update(files=[str(model)])
    assert [info.folder.path for info in store.runs()] == [unfinished.path, new.path, old.path]
    assert store.newest_for_file(model).folder.path == new.path  # type: ignore[union-attr]
    assert store.newest_for_file(tmp_path / "a.py").folder.path == old.path  # type: ignore[union-attr]
    assert store.newest_for_file(tmp_path / "else.py") is None


def test_a_run_whose_supervisor_is_gone_is_lost(tmp_path: Path) -> None:
    folder = Store(tmp_path).create(spec("t.py", tmp_path))
    assert RunInfo.read(folder).state == "created"  # type: ignore[union-attr]
    me = {"pid": os.getpid(), "start": process_start(os.getpid()), "host": os.uname().nodename}
    folder.update(state="running", supervisor=me)
    assert RunInfo.read(folder).state == "running"  # type: ignore[union-attr]
    folder.update(supervisor=me | {"start": 1})  # The pid belongs to another process by now.
    assert RunInfo.read(folder).state == "lost"  # type: ignore[union-attr]
    folder.update(supervisor=me | {"start": 1, "host": "another-node"})
    assert RunInfo.read(folder).state == "running"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"target": 3}', '{"target": "x", "created": "soon", "summary": 5, "files": 7}']
)
def test_a_damaged_record_is_no_run_or_one_without_facts(tmp_path: Path, content: str) -> None:
    path = tmp_path / "group" / "run"
    path.mkdir(parents=True)
    (path / "run.json").write_text(content)
    infos = Store(tmp_path).runs()
    assert all(info.target == "x" and info.files == () for info in infos)


def test_a_watcher_sees_new_and_finished_runs_and_nothing_else(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    finished(store, "old.py", tmp_path)
    watcher = Watcher(Store(tmp_path / "runs"))
    assert watcher.poll() == []
    assert watcher.poll() == []
    folder = store.create(spec("t.py", tmp_path))
    assert [info.folder.path for info in watcher.poll()] == [folder.path]
    assert watcher.poll() == []
    folder.profile.write_text("{}")
    assert [info.finished for info in watcher.poll()] == [True]
    store.pin(folder)
    assert [info.pinned for info in watcher.poll()] == [True]
    assert watcher.poll() == []


def test_watching_three_hundred_runs_is_cheap(tmp_path: Path) -> None:
    """A figure of merit with a wide margin: a poll stats files and reads none."""
    for number in range(300):
        path = tmp_path / f"g{number % 15}" / f"r{number}"
        path.mkdir(parents=True)
        (path / "run.json").write_text('{"target": "x"}')
    watcher = Watcher(Store(tmp_path))
    watcher.poll()
    begun = time.perf_counter()
    watcher.poll()
    assert time.perf_counter() - begun < 0.5


def test_what_a_person_means_by_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "runs")
    old = finished(store, "t.py", tmp_path)
    new = finished(store, "t.py", tmp_path)
    store.create(spec("t.py", tmp_path))  # without a profile
    assert resolve_run(old.path) == old
    assert resolve_run(old.profile) == old
    assert resolve_run(new.path.parent) == new
    assert resolve_run(tmp_path / "runs") == new
    assert resolve_run(Path(old.id), store) == old
    monkeypatch.setenv("RIDGELINE_RUN_DIR", str(tmp_path / "runs"))
    assert resolve_run(Path(new.id)) == new
    for nothing in (tmp_path / "none", tmp_path, Path("../x"), Path("..")):
        with pytest.raises(StoreError, match="no run at"):
            resolve_run(nothing, store)


def test_a_rank_has_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_PROCID", "3")
    folder = Store(tmp_path).create(spec("t.py", tmp_path))
    assert folder.path.name.endswith("-rank3")
    assert folder.record()["rank"] == 3


def test_the_ranks_of_a_job_are_pruned_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    jobs = []
    for number in range(3):
        ranks = []
        for rank in (1, 0, 2):
            monkeypatch.setenv("RANK", str(rank))
            folder = finished(store, "t.py", tmp_path)
            folder.update(created=1e9 + 1000 * number + len(ranks))
            ranks.append(folder.path)
        jobs.append(ranks)
    removed = store.prune(jobs[0][0].parent, keep=2)
    assert sorted(removed) == sorted(jobs[0])


def test_environment_values_are_not_recorded(tmp_path: Path) -> None:
    folder = Store(tmp_path).create(spec("t.py", tmp_path, env={"TOKEN": "hunter2"}))
    assert "hunter2" not in folder.run_json.read_text()
    assert folder.record()["options"]["env"] == ["TOKEN"]


def test_a_specification_survives_its_journey(tmp_path: Path) -> None:
    asked = spec("t.py", tmp_path, args=["--", "ü", ""], after=1.5, then="stop", user_roots=["/x"])
    assert RunSpec.from_json(asked.to_json()) == asked
    assert RunSpec.from_json(json.dumps(json.loads(asked.to_json()) | {"newer": 1})) == asked
    for broken in ("", "[]", "{}"):
        with pytest.raises(SpecError):
            RunSpec.from_json(broken)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target": "none.py"}, "no such file"),
        ({"target": "folder"}, "is a folder"),
        ({"target": "socket"}, "not a regular file"),
        ({"target": "loop.py"}, "no such file"),
        ({"target": "no-module", "module": True}, "not a module name"),
        ({"cwd": "/no/such"}, "no such folder"),
        ({"python": "/no/such"}, "no such interpreter"),
        ({"steps": 0}, "at least 1"),
        ({"after": -1.0}, "at least 0"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, object], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.py").touch()
    (tmp_path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind("socket")
        (tmp_path / "loop.py").symlink_to("loop.py")
        (tmp_path / "package").mkdir()
        (tmp_path / "package" / "__main__.py").touch()
        good: dict[str, object] = {"target": "t.py", "python": __file__, "cwd": str(tmp_path)}
        RunSpec(**good).check()  # type: ignore[arg-type]
        RunSpec(**(good | {"target": "package"})).check()  # type: ignore[arg-type]
        with pytest.raises(SpecError, match=words) as caught:
            RunSpec(**(good | options)).check()  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_the_package_needs_the_standard_library_and_platformdirs_alone() -> None:
    """The language server ships it."""
    import subprocess
    import sys

    probe = (
        "import sys; before = set(sys.modules)\n"
        "import ridgeline.runs.supervisor, ridgeline.runs.store, ridgeline.runs.launch, ridgeline.runs.__main__\n"
        "names = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(names - set(sys.stdlib_module_names) - {'ridgeline'}))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]", "platformdirs itself is imported only when the default place is asked for"
