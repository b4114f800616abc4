"""The columnar cache gives back what was read, and nothing where it is not of this very file."""

from __future__ import annotations

import dataclasses
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ridgeline.trace import cache as columns
from ridgeline.trace.cache import load, read_cached, save
from ridgeline.trace.reader import read_trace
from trace_build import call, kernel, op, write


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    if dataclasses.is_dataclass(one):
        return type(one) is type(other) and all(
            same(getattr(one, field.name), getattr(other, field.name)) for field in dataclasses.fields(one)
        )
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and bool(one == other)


@pytest.mark.parametrize("name", ["mlp_train", "slow_habits", "encoder_cudagraph"])
def test_what_is_reopened_is_what_was_read(corpus: Path, tmp_path: Path, name: str) -> None:
    path = corpus / name / "trace.json.gz"
    read = read_trace(path)
    assert same(read_cached(path, tmp_path / "columns"), read)
    again = load(path, tmp_path / "columns")
    assert again is not None
    assert same(again, read)
    again.ops.start[:] = 0  # Its own copy: the file stays as it is.
    assert same(load(path, tmp_path / "columns"), read)


def test_reopening_is_instant(corpus: Path, tmp_path: Path) -> None:
    path = corpus / "mixnet_train" / "trace.json.gz"
    read_cached(path, tmp_path / "columns")
    best = min(_seconds(path, tmp_path / "columns") for _ in range(5))
    assert best < 0.3


def _seconds(path: Path, cache: Path) -> float:
    begin = time.perf_counter()
    assert load(path, cache) is not None
    return time.perf_counter() - begin


def test_another_file_other_wishes_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, cache = write(tmp_path, [op(0, 5), call(1, corr=1), kernel(9, 2, corr=1)]), tmp_path / "columns"
    read_cached(path, cache)
    assert load(path, cache) is not None
    assert load(path, cache, frames=False) is None
    with monkeypatch.context() as patch:
        patch.setattr(columns, "__version__", "9.9")
        assert load(path, cache) is None
    write(tmp_path, [op(0, 6)])
    assert load(path, cache) is None
    assert len(read_cached(path, cache).device_events.start) == 0
    assert load(path, cache) is not None


def test_a_damaged_cache_is_read_anew(tmp_path: Path) -> None:
    path, cache = write(tmp_path, [op(3 * n, 2, f"op{n}") for n in range(50)]), tmp_path / "columns"
    trace = read_trace(path)
    assert save(trace, path, cache)
    whole = cache.read_bytes()
    rng = random.Random(5)
    header = len(whole) - 50 * 60
    for _ in range(200):
        bad = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            bad[rng.randrange(header)] = rng.randrange(256)
        cache.write_bytes(bytes(bad[: rng.choice((len(bad), rng.randrange(len(bad))))]))
        found = load(path, cache)
        assert found is None or len(found.ops.start) <= 50
    cache.write_bytes(b"")
    assert same(read_cached(path, cache), trace)


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    path = write(tmp_path, [op(0, 5)])
    assert len(read_cached(path, tmp_path / "none" / "columns").ops.start) == 1
    assert not list(tmp_path.glob("*.part"))
