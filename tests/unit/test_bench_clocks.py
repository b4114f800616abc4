"""The device's clock against a stand-in for a device: a queue with a time of its own, fed by a host that takes time too."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import pytest

import bench_modules
from bench_inside import load_inside
from ridgeline.bench import document, plan
from ridgeline.bench.measure import rank, rate_tflops, timing

torch = pytest.importorskip("torch")
FLUSH_S = 25e-6


class Device:
    """``torch.cuda`` as far as the clock uses it. Times are seconds; ``step`` is the resolution of its events."""

    def __init__(self, *, launch_s: float = 20e-6, step: float = 32e-9, pair_s: float = 1.5e-6) -> None:
        self.host = self.free = 0.0
        self.launch_s, self.step, self.pair_s = launch_s, step, pair_s
        self.flushes = 0

    def queue(self, seconds: float) -> None:
        """The host takes its time to queue something; the device begins with it when it is free."""
        self.host += self.launch_s
        self.free = max(self.free, self.host) + seconds

    def kernel(self, seconds: float) -> Any:
        return lambda: self.queue(seconds)

    def _sleep(self, cycles: int) -> None:
        self.queue(cycles / 2e9)

    def synchronize(self) -> None:
        self.host = max(self.host, self.free)

    def current_device(self) -> int:
        return 0

    def get_device_properties(self, index: int) -> Any:
        return SimpleNamespace(L2_cache_size=1 << 20)

    def Event(self, *, enable_timing: bool) -> Any:
        return Event(self)


class Event:
    def __init__(self, device: Device) -> None:
        self.device = device

    def record(self) -> None:
        device = self.device
        device.host += 2e-6
        device.free = max(device.free, device.host) + device.pair_s
        self.at = device.free

    def query(self) -> bool:
        return self.at <= self.device.host

    def elapsed_time(self, end: Event) -> float:
        return round((end.at - self.at) / self.device.step) * self.device.step * 1e3


def clock(device: Device) -> Any:
    load_inside()
    clocks = importlib.import_module("_ridgeline_bench.clocks")

    class Flusher:
        def zero_(self) -> None:
            device.flushes += 1
            device.queue(FLUSH_S)

    stand_in = SimpleNamespace(cuda=device, int32=None, empty=lambda *a, **k: Flusher())
    return clocks.CudaClock(stand_in)


def test_a_kernel_shorter_than_its_launch_is_measured_without_the_launch() -> None:
    device = Device(launch_s=30e-6)
    one = clock(device)
    taken = one.warm(device.kernel(3e-6))
    # In a row the device never waits for the host: 3 us each, and the pair of events once.
    assert taken["calls"] > 10
    assert min(taken["seconds"]) / taken["calls"] == pytest.approx(3e-6, rel=0.05)
    assert max(taken["seconds"]) == pytest.approx(min(taken["seconds"]), rel=1e-3)
    assert one.late == 0


def test_the_flush_is_before_the_first_event() -> None:
    device = Device()
    one = clock(device)
    taken = one.cold(device.kernel(10e-6))
    rows = len(taken["seconds"]) // one.IN_A_ROW
    assert len(taken["seconds"]) == one.MOST
    assert device.flushes == 1 + len(taken["seconds"]) + rows  # each row begins with one that is not timed
    assert taken["calls"] == 1
    assert one.late == 0
    # As Inductor's own, events included, and each alike.
    assert taken["seconds"] == pytest.approx([10e-6 + device.pair_s] * one.MOST, abs=1e-7)


def test_a_host_that_comes_too_late_is_noticed_and_waited_for() -> None:
    device = Device(launch_s=3e-3)  # slower than the millisecond of the spin
    one = clock(device)
    taken = one.cold(device.kernel(10e-6))
    assert one.late > 0
    assert max(taken["seconds"]) < 20e-6  # no sample holds a gap of milliseconds
    assert len(taken["seconds"]) >= 10


def test_pythons_work_before_a_launch_is_not_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """UP-79: 44 ms of searching names before a kernel of 0.45 ms. Measured, and said, through the whole document."""
    device = Device(pair_s=0.0)
    one = clock(device)
    clocks = importlib.import_module("_ridgeline_bench.clocks")
    monkeypatch.setattr(clocks.time, "perf_counter", lambda: device.host)

    def slow_launch() -> None:
        device.host += 44e-3
        device.queue(450e-6)

    read = plan.read(bench_modules.user_module(), "/x/c.py")
    row = {"problem": None, "cold": one.cold(slow_launch)}
    (kernel,) = document.build(read, {"kernels": {"scale_kernel_0": row}}, verify=False)["kernels"]
    assert kernel["cold"]["median_us"] == pytest.approx(450, rel=1e-3)
    assert "host overhead of measurement 44 ms: not part of the kernel's time" in kernel["notes"]


def test_a_flush_does_not_flip_the_order_of_two_configurations() -> None:
    """UP-81: A takes 83.1 us, B 68.8 us and 30 us of clearing its workspace before each call."""
    flop = 2 * 1152 * 1024 * 24576
    medians = {}
    for name, micro in (("A", 83.1), ("B", 68.8)):
        device = Device(pair_s=0.0)
        seconds = clock(device).cold(device.kernel(micro * 1e-6))["seconds"]
        timed = timing(seconds, cache="cold", clock="cuda events")
        assert timed.median_us is not None
        medians[name] = timed.median_us
    assert rank(medians, "cold").sentence == "cold cache: B is fastest"
    assert rate_tflops(flop, medians["B"]) == pytest.approx(843, abs=1)
    assert rate_tflops(flop, medians["A"]) == pytest.approx(698, abs=1)
    assert rank({"A": 83.1, "B": 68.8 + 30}, "cold").order[0] == "A"  # what counting the clearing would have chosen


def test_the_clocks_step_and_share_are_measured() -> None:
    coarse = clock(Device(step=5e-7))
    assert coarse.tick_s == pytest.approx(5e-7)
    device = Device()
    one = clock(device)
    assert one.overhead_s == pytest.approx(device.pair_s, abs=1e-7)
    assert one.tick_s <= 5e-7


def test_a_slow_kernel_does_not_take_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device()
    one = clock(device)
    clocks = importlib.import_module("_ridgeline_bench.clocks")
    monkeypatch.setattr(clocks.time, "perf_counter", lambda: device.host)
    taken = one.warm(device.kernel(1.5))
    assert 3 <= len(taken["seconds"]) <= 4
    assert 3 <= len(one.cold(device.kernel(1.5))["seconds"]) <= 4
    assert 10 <= len(one.cold(device.kernel(0.01))["seconds"]) <= 30


def test_the_wait_for_a_core_is_read_from_the_scheduler() -> None:
    load_inside()
    clocks = importlib.import_module("_ridgeline_bench.clocks")
    assert clocks.waited_part((100, 50), (400, 150)) == pytest.approx(0.25)
    assert clocks.waited_part(None, (1, 1)) is clocks.waited_part((1, 1), (1, 1)) is None
    found = clocks.CpuClock(torch).warm(lambda: sum(range(100)))
    assert found["waited"] is None or 0 <= found["waited"] <= 1
