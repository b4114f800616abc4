"""Damaged traces neither crash nor hang the reader, and no figure of theirs is other than finite."""

from __future__ import annotations

import gzip
import json
import random
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline.trace import intervals as iv
from ridgeline.trace.nesting import innermost, nest
from trace_fuzz import check, mutated, pieces_of

SAMPLE = 300
SOAK = 10_000
BATCHES = 20
SLOWEST_S = 10.0
"""One input of 40 KB takes milliseconds; a machine under load is allowed for."""


def sources(corpus: Path, cases: Path) -> list[bytes]:
    paths = [
        *sorted(corpus.glob("*/trace.json.gz")),
        cases / "data/kin/resnet50_num_workers_4_worker0.1623212756351.pt.trace.json.gz",
        cases / "data/tl/inference/vllm_decode_full/graph_execution.json.gz",
        cases / "data/tl/inference/sglang_decode/sglang_Qwen3-8B_decode.json.gz",
        cases / "data/hta/critical_path/cuda_event_sync/event_sync_trace.json.gz",
    ]
    return [gzip.decompress(path.read_bytes()) for path in paths]


def campaign(corpus: Path, cases: Path, folder: Path, seeds: range) -> dict[str, int]:
    texts = sources(corpus, cases)
    path = folder / "trace.json"
    outcomes = {"read": 0, "refused": 0}
    for seed in seeds:
        rng = random.Random(seed)
        one, other = rng.choice(texts), rng.choice(texts)
        path.write_bytes(mutated(pieces_of(one, rng), other, rng))
        begin = time.perf_counter()
        try:
            outcomes[check(path)] += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
        assert time.perf_counter() - begin < SLOWEST_S, f"seed {seed} took too long"
    return outcomes


def test_damaged_traces(corpus: Path, cases: Path, tmp_path: Path) -> None:
    outcomes = campaign(corpus, cases, tmp_path, range(SAMPLE))
    assert outcomes["read"] > 0.9 * SAMPLE  # A wound costs records, seldom the file.


@pytest.mark.soak
@pytest.mark.parametrize("batch", range(BATCHES))
def test_damaged_traces_by_the_thousand(corpus: Path, cases: Path, tmp_path: Path, batch: int) -> None:
    size = SOAK // BATCHES
    outcomes = campaign(corpus, cases, tmp_path, range(1000 + batch * size, 1000 + (batch + 1) * size))
    assert outcomes["read"] > 0.9 * size


def test_wounds_cost_what_they_touch(corpus: Path, tmp_path: Path) -> None:
    """One flipped quote in a trace of thousands of records loses a handful of them."""
    text = gzip.decompress((corpus / "mlp_train" / "trace.json.gz").read_bytes())
    path = tmp_path / "trace.json"
    from ridgeline.trace.reader import read_trace

    path.write_bytes(text)
    whole = read_trace(path).quality.events
    rng = random.Random(11)
    quotes = [at for at, byte in enumerate(text) if byte == 0x22]
    for _ in range(30):
        at = rng.choice(quotes)
        path.write_bytes(text[:at] + text[at + 1 :])
        assert read_trace(path).quality.events >= whole - 3


# --- hypothesis

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.integers(-5, 200), st.floats(0, 1e3)
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)
categories = st.sampled_from(
    ["kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver", "cpu_op", "user_annotation", "python_function",
     "cpu_instant_event", "overhead", "ac2g", "Kernel", "Operator", "mtia_ccp_events", "zzz"]
)  # fmt: skip
names = st.sampled_from(
    ["k", "Memcpy DtoH (Device -> Pageable)", "cudaLaunchKernel", "cudaStreamSynchronize", "cudaMemcpyAsync", "[memory]",
     "ProfilerStep#1", "ProfilerStep#2", "aten::mm", "ncclDevKernel_AllReduce", "a.py(3): f", "<built-in method x>", "unknown"]
)  # fmt: skip
small = st.integers(0, 3)
events = st.fixed_dictionaries(
    {},
    optional={
        "ph": st.sampled_from(["X", "i", "M", "s"]) | values,
        "cat": categories | values,
        "name": names | values,
        "pid": small | values,
        "tid": small | values,
        "ts": st.floats(0, 500) | st.integers(0, 500) | values,
        "dur": st.floats(0, 100) | values,
        "args": st.dictionaries(
            st.sampled_from(
                [
                    "device",
                    "stream",
                    "correlation",
                    "External id",
                    "bytes",
                    "grid",
                    "block",
                    "Python id",
                    "Python parent id",
                    "Sequence number",
                    "Input Dims",
                    "Input type",
                    "kernel_file",
                    "Total Allocated",
                    "Bytes",
                ]
            ),
            small | values,
            max_size=6,
        )
        | values,
    },
)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.lists(events | values, max_size=25), st.dictionaries(st.text(max_size=5), values, max_size=2))
def test_any_json(tmp_path: Path, rows: list[object], top: dict[str, object]) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({**top, "traceEvents": rows}), encoding="utf-8")
    assert check(path) in ("read", "refused")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200) | st.text(alphabet='{}[]",:\\ntrue0123.eE- ', max_size=120).map(str.encode))
def test_any_bytes(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "trace.json"
    for framed in (text, b'{"traceEvents":[' + text + b"]}", b'[{"ph":"X",' + text):
        path.write_bytes(framed)
        assert check(path) in ("read", "refused")


pairs = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 25)), max_size=25)


def covered(rows: list[tuple[int, int]]) -> set[int]:
    return {moment for start, dur in rows for moment in range(start, start + dur)}


def arrays(rows: list[tuple[int, int]]) -> iv.Intervals:
    start = np.array([row[0] for row in rows], dtype=np.float64)
    return iv.union(start, start + np.array([row[1] for row in rows], dtype=np.float64))


@given(pairs, pairs, st.integers(0, 40), st.integers(0, 60))
def test_interval_algebra_is_set_algebra(
    one: list[tuple[int, int]], other: list[tuple[int, int]], low: int, length: int
) -> None:
    a, b = arrays(one), arrays(other)
    left, right, window = covered(one), covered(other), set(range(low, low + length))
    assert a.total == len(left)
    assert (a.start[1:] > a.end[:-1]).all()
    assert iv.intersect(a, b).total == len(left & right)
    assert iv.subtract(a, b).total == len(left - right)
    assert iv.join(a, b).total == len(left | right)
    assert iv.clip(a, low, low + length).total == len(left & window)
    assert iv.complement(a, low, low + length).total == len(window - left)
    start = np.array([row[0] for row in other], dtype=np.float64)
    end = start + np.array([row[1] for row in other], dtype=np.float64)
    assert iv.overlap_of(start, end, a).tolist() == [len(covered([row]) & left) for row in other]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 25), st.integers(0, 1)), max_size=20), st.integers(0, 70))
def test_self_time_is_the_innermost_ones(rows: list[tuple[int, int, int]], moment: int) -> None:
    rows = sorted(rows, key=lambda row: (row[0], -row[1]))
    start = np.array([row[0] for row in rows], dtype=np.float64)
    dur = np.array([row[1] for row in rows], dtype=np.float64)
    thread = np.array([row[2] for row in rows], dtype=np.int32)
    parent, own = nest(start, dur, thread)
    expected = [0] * len(rows)
    for where in (0, 1):
        for instant in range(70):
            open_rows = [n for n, row in enumerate(rows) if row[2] == where and row[0] <= instant < row[0] + row[1]]
            if open_rows:
                expected[max(open_rows)] += 1
    assert own.tolist() == expected
    found = innermost(start, start + dur, thread, parent, np.array([moment + 0.5]), np.array([0], dtype=np.int32))
    holders = [n for n, row in enumerate(rows) if row[2] == 0 and row[0] <= moment < row[0] + row[1]]
    if found[0] >= 0:
        assert found[0] in holders
