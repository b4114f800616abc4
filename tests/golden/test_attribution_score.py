"""The score against Inductor's own logs, as thresholds: ``attribution_score.py`` prints the figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from attribution_score import GRAPHED, WORKLOADS, evaluate

FORWARD_PCT, BACKWARD_PCT, GRAPHED_PCT, WRONG_PCT = 99.0, 97.0, 95.0, 0.5


@pytest.mark.parametrize("workload", WORKLOADS)
def test_with_the_log(corpus: Path, workload: str) -> None:
    scores = evaluate(corpus, workload, with_log=True)
    assert scores["forward"].total > 0
    for name, least in (("forward", FORWARD_PCT), ("backward", BACKWARD_PCT)):
        one = scores[name]
        if not one.total:  # inference only
            continue
        assert one.coverage_pct >= (GRAPHED_PCT if workload in GRAPHED else least), one.examples[:3]
        assert one.wrong_pct <= WRONG_PCT, one.examples[:3]
        assert one.percent(one.call) >= (GRAPHED_PCT if workload in GRAPHED else least)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_without_the_log_no_wrong_line(corpus: Path, workload: str) -> None:
    """Without the log nothing says which statements a kernel holds: the call of the region is claimed, or nothing."""
    for one in evaluate(corpus, workload, with_log=False).values():
        assert one.wrong_pct <= WRONG_PCT if one.total else True, one.examples[:3]
        assert one.lines == 0
        assert one.percent(one.call) >= GRAPHED_PCT if one.total else True, "the generated line needs no log"
