"""The steady detector: which marker leads, when it has settled, what a disturbance does."""

from __future__ import annotations

from ridgeline.agent.steady import GIVE_UP, SETTLE_MOST, Steady, Track

MS = 1_000_000


def feed(steady: Steady, kind: str, times: list[int], key: object = 0) -> Track:
    track = None
    for time in times:
        track, _ = steady.mark(kind, key, time)
    assert track is not None
    return track


def test_even_steps_settle_after_three_of_at_least_a_fifth_of_a_second() -> None:
    steady = Steady()
    track = feed(steady, "optimizer", [0, 100 * MS, 200 * MS])
    assert steady.verdict(track) is None
    feed(steady, "optimizer", [300 * MS])
    assert steady.verdict(track) == "stable"


def test_fast_steps_need_a_few_more() -> None:
    steady = Steady()
    track = feed(steady, "optimizer", [i * MS for i in range(SETTLE_MOST)])
    assert steady.verdict(track) is None
    feed(steady, "optimizer", [SETTLE_MOST * MS])
    assert steady.verdict(track) == "stable"


def test_uneven_steps_wait_and_give_up_at_last() -> None:
    steady = Steady()
    time, times = 0, []
    for i in range(GIVE_UP):
        times.append(time)
        time += (10 if i % 2 else 100) * MS
    track = feed(steady, "optimizer", times)
    assert steady.verdict(track) is None
    feed(steady, "optimizer", [time])
    assert steady.verdict(track) == "gave_up"


def test_a_compilation_starts_settling_anew_and_its_interval_does_not_count() -> None:
    steady = Steady()
    track = feed(steady, "optimizer", [0, 100 * MS, 200 * MS])
    steady.disturb()
    _, interval = steady.mark("optimizer", 0, 9000 * MS)
    assert interval is None
    assert track.clean == []
    _, interval = steady.mark("optimizer", 0, 9100 * MS)
    assert interval == 100 * MS
    assert steady.verdict(track) is None


def test_the_optimizer_leads_over_regions_and_batches_seen_earlier() -> None:
    steady = Steady()
    for i in range(4):
        steady.mark("loader", 0, i * 100 * MS)
        steady.mark("region", 0, i * 100 * MS + 1)
        steady.mark("optimizer", 0, i * 100 * MS + 2)
    leader = steady.leader()
    assert leader is not None
    assert leader.kind == "optimizer"


def test_of_two_optimizers_the_first_leads() -> None:
    steady = Steady()
    for i in range(4):
        for key in ("generator", "critic"):
            steady.mark("optimizer", key, i * 100 * MS)
    leader = steady.leader()
    assert leader is not None
    assert leader.key == "generator"


def test_a_step_of_more_than_five_seconds_gives_way_to_a_faster_marker() -> None:
    steady = Steady()
    for i in range(20):
        steady.mark("loader", 0, i * 1000 * MS)
        if i % 8 == 0:
            steady.mark("optimizer", 0, i * 1000 * MS)
    leader = steady.leader()
    assert leader is not None
    assert leader.kind == "loader"


def test_warmup_is_taken_at_its_word() -> None:
    steady = Steady(warmup=2)
    track = feed(steady, "optimizer", [0, 500 * MS])
    assert steady.verdict(track) is None
    feed(steady, "optimizer", [510 * MS])
    assert steady.verdict(track) == "stable"


def test_work_of_ours_is_not_charged_to_the_running_step() -> None:
    steady = Steady()
    feed(steady, "optimizer", [0, 100 * MS])
    steady.restamp(700 * MS)
    _, interval = steady.mark("optimizer", 0, 800 * MS)
    assert interval == 100 * MS
