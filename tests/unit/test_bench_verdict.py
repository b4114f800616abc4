"""A wider search is recommended only where it was measured to be worth it. Numbers UP-nn are CASES.md's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ridgeline.bench import search, verdict
from ridgeline.bench.measure import rate_tflops


def flat(value: float) -> list[list[float]]:
    return [[value * f for f in (0.999, 1.0, 1.0, 1.001)], [value * f for f in (1.0, 1.0, 1.001, 0.999)]]


def test_a_gain_above_spread_and_five_percent_is_verified_with_its_price() -> None:
    judged = verdict.judge(flat(160), flat(100), config="XBLOCK: 8", exposed_share=0.25, compile_s=3.5, reduces=True)
    assert judged.state == "verified"
    assert judged.speedup == pytest.approx(1.6)
    assert judged.step_gain == pytest.approx(0.25 * (1 - 1 / 1.6))
    assert (judged.config, judged.compile_s) == ("XBLOCK: 8", 3.5)
    assert judged.remedy is not None
    assert "coordinate_descent_tuning" in judged.remedy
    assert judged.wider is not None
    assert "GEMM" in judged.wider
    assert judged.caution is not None
    assert "last bits" in judged.caution


@pytest.mark.parametrize("gain", [0.0, 0.02, 0.049])
def test_a_gain_below_five_percent_is_none(gain: float) -> None:
    judged = verdict.judge(flat(100 * (1 + gain)), flat(100))
    assert judged.state == "no_gain"
    assert judged.remedy is None
    assert judged.config is None


def test_a_gain_within_the_spread_is_none() -> None:
    before = [[90.0, 110.0, 130.0, 150.0], [95.0, 112.0, 128.0, 155.0]]
    judged = verdict.judge(before, flat(100))
    assert judged.speedup > 1.1
    assert judged.state == "no_gain"
    assert "exceeds the spread" in judged.sentence


def test_a_drift_between_the_rounds_counts_as_spread() -> None:
    """A device that warmed up: A 100 then 120, B 100."""
    judged = verdict.judge([flat(100)[0], flat(120)[0]], flat(100))
    assert judged.spread == pytest.approx(0.2)
    assert judged.state == "no_gain"


def test_the_autotuners_claim_is_not_believed_against_the_call() -> None:
    """UP-80: its log claims a win; the compiled call takes 2.473 ms against 0.541 ms."""
    judged = verdict.judge(flat(541), flat(2473), config="triton mm")
    assert judged.state == "no_gain"
    assert judged.config is None
    assert judged.remedy is None
    assert judged.sentence == "the wider search is 4.57x slower here: leave it off"
    flop = 2 * 1536 * 3072 * 12288
    assert rate_tflops(flop, 541) == pytest.approx(214.4, abs=0.1)
    assert rate_tflops(flop, 2473) == pytest.approx(46.9, abs=0.1)


def test_a_foreach_kernel_with_one_configuration_is_a_candidate() -> None:
    """UP-83: 2.493 ms, and 0.636 ms by the second measurement."""
    assert verdict.fixed_configuration("foreach", 1) == "autotune candidate: foreach kernel with a fixed config"
    assert verdict.fixed_configuration("foreach", 12) is None
    assert verdict.fixed_configuration("pointwise", 1) is None
    judged = verdict.judge(flat(2493), flat(636))
    assert judged.sentence == "3.92x faster with the wider search"


def copy(us: float, config: str = "", compile_s: float = 1.0) -> verdict.Copy:
    return verdict.Copy(rounds=flat(us), config=config, compile_s=compile_s)


def test_the_remedy_is_the_narrow_one_where_its_gain_was_measured() -> None:
    """And the gain, configuration and price are those of what is recommended."""
    best, searches = verdict.recommend(copy(160), copy(100, "N", 3.0), copy(99, "W", 9.0))
    assert (best.state, best.config, best.compile_s, best.remedy) == ("verified", "N", 2.0, verdict.NARROW)
    assert best.sentence == "1.60x faster with coordinate descent"
    assert [one["search"] for one in searches] == ["narrow", "wider"]
    assert searches[1]["speedup"] == pytest.approx(160 / 99)
    assert (searches[1]["config"], searches[1]["compile_s"]) == ("W", 8.0)


def test_the_wider_one_is_named_only_where_it_finds_more() -> None:
    best, _ = verdict.recommend(copy(160), copy(155, "N"), copy(100, "W", 4.0))
    assert (best.config, best.compile_s, best.remedy) == ("W", 3.0, verdict.WIDER)
    assert "max_autotune_pointwise" in verdict.WIDER
    best, _ = verdict.recommend(copy(160), copy(130, "N"), copy(100, "W"))
    assert best.config == "W"  # 1.3x more than the narrow one: the longer search is worth it
    best, _ = verdict.recommend(copy(160), copy(120, "N"), copy(200, "W"))
    assert best.config == "N"
    best, searches = verdict.recommend(copy(100), copy(101), copy(125))
    assert (best.state, best.remedy, best.sentence) == (
        "no_gain",
        None,
        "coordinate descent is 1.01x slower here: leave it off",
    )
    assert [one["state"] for one in searches] == ["no_gain", "no_gain"]


def test_times_of_zero_are_not_compared() -> None:
    with pytest.raises(ValueError, match="nothing to compare"):
        verdict.judge([[0.0, 0.0]], [[0.0]])


def measured(corpus: Path) -> list[dict[str, Any]]:
    rows = []
    for workload in ("mlp_train", "encoder_train", "user_triton"):
        for line in (corpus / workload / "autotune.jsonl").read_text().splitlines():
            row = json.loads(line)
            if all("ms" in row.get(mode, {}) for mode in ("default", "max", "cd")):
                rows.append(row)
    return rows


def test_the_rule_on_what_an_h200_measured(corpus: Path) -> None:
    """Golden: every kernel of three programs, default against the copy with coordinate descent."""
    rows = measured(corpus)
    assert len(rows) == 65
    verified = {}
    for row in rows:
        judged = verdict.judge(
            [[row["default"]["ms"] * 1e3]],
            [[row["cd"]["ms"] * 1e3]],
            within=[row["default"]["spread"], row["cd"]["spread"]],
        )
        if judged.state == "verified":
            verified[row["file"]] = judged.speedup
            assert row["cd"]["ms"] < row["default"]["ms"]
    assert max(verified.values()) == pytest.approx(1.65, abs=0.01)
    assert min(verified.values()) > 1.05
    expected = {
        r["file"] for r in rows
        if r["default"]["ms"] / r["cd"]["ms"] - 1 > max(0.05, r["default"]["spread"], r["cd"]["spread"])
    }  # fmt: skip
    assert set(verified) == expected
    best = max(verified, key=lambda name: verified[name])
    name = next(row["kernel"] for row in rows if row["file"] == best)
    assert name.startswith("triton_red_fused__to_copy_add_native_layer_norm")


def test_max_autotune_alone_is_never_recommended_where_it_is_slower(corpus: Path) -> None:
    slower = [row for row in measured(corpus) if row["max"]["ms"] > 1.05 * row["default"]["ms"]]
    assert slower  # it happens: down to 0.80x of the speed
    for row in slower:
        judged = verdict.judge([[row["default"]["ms"]]], [[row["max"]["ms"]]])
        assert judged.state == "no_gain"
        assert "leave it off" in judged.sentence


META = "@h(\n    inductor_meta={'kernel_name': 'k', 'max_autotune': False, 'autotune_remote_cache': None, 'n': 1}\n)\nrest 'max_autotune': False\n"


def test_the_switch_is_made_in_the_metadata_alone() -> None:
    wide = search.wider(META)
    row = wide.splitlines()[1]
    for entry in ("'max_autotune': True", "'coordinate_descent_tuning': True", "'autotune_local_cache': False",
                  "'autotune_remote_cache': False", "'force_disable_caches': True"):  # fmt: skip
        assert entry in row
    assert wide.splitlines()[3] == "rest 'max_autotune': False"
    narrow = search.copies(META, "k")["narrow"]
    assert "'max_autotune': False" in narrow.splitlines()[1]
    assert "'coordinate_descent_tuning': True" in narrow.splitlines()[1]
    plain = search.plain(META)
    assert "'max_autotune': False" in plain.splitlines()[1]
    assert "coordinate_descent" not in plain
    assert "'autotune_local_cache': False" in plain
    with pytest.raises(search.NoMetadata):
        search.wider("def f():\n    pass\n")


def test_the_kernels_of_the_corpus_can_be_switched_and_still_parse(corpus: Path) -> None:
    import ast
    import tarfile

    count = 0
    with tarfile.open(corpus / "mlp_train" / "generated.tar.gz") as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.name.endswith(".py") else None
            text = stream.read().decode() if stream else ""
            if "inductor_meta={" not in text or "AsyncCompile()" in text:
                continue
            count += 1
            ast.parse(search.wider(text))
            assert search.wider(text).count("'coordinate_descent_tuning': True") == 1
            assert "'max_autotune': False" not in search.wider(text)
            symbol = next(n.name for n in ast.parse(text).body if isinstance(n, ast.FunctionDef))
            bodies = {
                name: copied[copied.index(f"def {symbol}(") :] for name, copied in search.copies(text, symbol).items()
            }
            for body in bodies.values():
                ast.parse(body)
            assert len(set(bodies.values())) == 3  # to Triton's cache three kernels: each search pays for itself
    assert count == 23
