"""Predicted bounds against Nsight Compute on recorded workloads: the floors that must hold.

Some fifty constants were read off these captures, so the figures here show that nothing got worse; what the models are worth
on programs that nobody has looked at, only a new capture tells (``capture/README.md``; the first scores of all captures are in
``docs/roofline.md``: on average below these floors).
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest

import candidate_score
from roofline_score import Row, opened, score_capture, share

OWN = Path(__file__).parent / "data" / "roofline"
GIVEN = ("mlp_train", "encoder_train", "user_triton")
FIRST = ("bert_infer", "decode", "eager_mix", "fused_zoo", "llama_train", "unet_infer")
THIRD = ("quantised_infer",)
"""Scored once, when the code of the second round was done, and not mended with: no floor (docs/roofline.md)."""
SECOND = (
    "audio_encoder_train",
    "convnet_train",
    "diffusion_train",
    "gnn_train",
    "gpt2_train",
    "moe_infer",
    "recommender_train",
    "resnet_eager_train",
    "resnet_infer",
    "state_space",
    "vit_train",
)
FOURTH = (
    "clip_train",
    "convnext_train",
    "efficientnet_infer",
    "fourier_operator_train",
    "gan_train",
    "graph_attention_train",
    "hifigan_train",
    "lora_train",
    "lstm_tagger_train",
    "nerf_train",
    "patch_forecast_train",
    "pointnet_train",
    "ppo_update",
    "segmentation_train",
    "swin_infer",
    "t5_train",
    "templates_train",
    "vae_train",
    "video3d_train",
    "whisper_infer",
)
"""Most hold the counters of a step's first 46 to 131 launches; nine of them were scored once by code that had not seen them
(docs/roofline.md)."""
FIFTH = (
    "augment_eager",
    "detection_eager",
    "distil_train",
    "metrics_eager",
    "mixtral_train",
    "monte_carlo_infer",
    "optimizer_step",
    "vqvae_train",
)
"""Scored before anything was changed for them, then mended with (docs/roofline.md, fourth round)."""
SIXTH = (
    "dit_train",
    "embedder_train",
    "gqa_prefill_infer",
    "linear_attention_train",
    "mae_train",
    "medical_unet3d_infer",
    "sparse_autoencoder_train",
    "super_resolution_train",
    "tabular_train",
    "transducer_train",
)
"""Written by one who did not know the models, and scored by code that had not seen them: .982 / .985 and .960 / .914."""
DIRECT = ("hand_triton", "hand_triton2")
"""Kernels launched directly, most of whose sizes nothing recorded."""


def _own(name: str) -> Path:
    """As captured, or made small (``capture/repack.py``)."""
    return next(OWN.glob(f"{name}.tar.?z"))


@lru_cache(maxsize=64)
def _rows(path: Path) -> tuple[Row, ...]:
    with opened(path) as folder:
        return tuple(score_capture(folder))


def _check(rows: list[Row], triton: tuple[float, float], every: tuple[float, float], swaps: int = 0) -> None:
    generated = [r for r in rows if r.triton]
    assert share(generated) >= triton[0]
    assert share(generated, timed=True) >= triton[1]
    assert share(rows) >= every[0]
    assert share(rows, timed=True) >= every[1]
    clear = [r for r in rows if r.margin >= 10]
    assert share(clear) >= 0.98
    assert share(clear, timed=True) >= 0.95
    assert share(r for r in rows if r.ncu_us >= 10) >= 0.82
    swapped = [r for r in generated if {r.truth, r.kernel.bound} == {"memory", "compute"}]
    assert len(swapped) <= swaps


def test_given_captures(corpus: Path) -> None:
    _check([r for name in GIVEN for r in _rows(corpus / name)], (0.95, 0.90), (0.92, 0.85))


def test_each_given_program_alone(corpus: Path) -> None:
    for name in ("mlp_train", "encoder_train"):
        _check(list(_rows(corpus / name)), (0.95, 0.90), (0.92, 0.85))


def test_every_own_capture_is_in_a_group() -> None:
    assert {p.name.split(".")[0] for p in OWN.glob("*.tar.?z")} == {
        *FIRST, *SECOND, *THIRD, *FOURTH, *FIFTH, *SIXTH, *DIRECT
    }  # fmt: skip


def test_first_round() -> None:
    rows = [r for name in FIRST for r in _rows(_own(name))]
    assert len(rows) >= 440
    _check(rows, (0.94, 0.88), (0.95, 0.95))


def test_second_round() -> None:
    """Two kernels of generated code near both limits are on the wrong side of them."""
    rows = [r for name in SECOND for r in _rows(_own(name))]
    assert len(rows) >= 1100
    _check(rows, (0.93, 0.92), (0.93, 0.94), swaps=2)


def test_fourth_round() -> None:
    """Two kernels of generated code are on the wrong side of each other: a pointwise one of efficientnet_infer (56 and 72 by ncu,
    74 and 71 here) and a softmax's backward of t5_train (79 and 63 by ncu, 55 and 86 here)."""
    rows = [r for name in FOURTH for r in _rows(_own(name))]
    assert len(rows) >= 1500
    _check(rows, (0.95, 0.95), (0.93, 0.93), swaps=2)


def test_fifth_round() -> None:
    rows = [r for name in FIFTH for r in _rows(_own(name))]
    assert len(rows) >= 830
    _check(rows, (0.95, 0.92), (0.97, 0.96))


def test_sixth_round() -> None:
    rows = [r for name in SIXTH for r in _rows(_own(name))]
    assert len(rows) >= 770
    _check(rows, (0.97, 0.97), (0.96, 0.96))


def test_direct_launches_without_their_arguments() -> None:
    """What nothing tells is unknown, and counts as wrong here; what is said is right."""
    rows = [r for name in DIRECT for r in _rows(_own(name))]
    said = [r for r in rows if r.kernel.bound != "unknown"]
    assert len(said) >= 18
    assert all(r.right for r in said)


def test_direct_launches_with_the_arguments_that_they_had() -> None:
    """As in a run of our own, where the agent notes them; 200 terms and 4 of one polynomial under the same grid."""
    rows = []
    for name in DIRECT:
        with opened(_own(name)) as folder:
            rows += score_capture(folder, arguments=True)
    assert all(r.right for r in rows)
    direct = [r for r in rows if r.kernel.category == "user_triton" and not r.kernel.generated]
    assert {r.kernel.launch.config for r in direct if r.kernel.symbol == "polynomial_kernel"} == {
        "BLOCK=1024,TERMS=4",
        "BLOCK=1024,TERMS=200",
    }
    for row in direct:
        assert row.kernel.bytes is not None
        assert row.kernel.dram_bytes is not None
        if (
            row.kernel.bytes > 2 * row.l2_bytes
            and "matmul" not in row.kernel.symbol
            and "product" not in row.kernel.symbol
        ):
            assert abs(row.kernel.dram_bytes / row.dram_bytes - 1) < 0.15  # factors come from memory more than once
    product = next(r.kernel for r in direct if r.kernel.symbol == "product_kernel")
    assert product.flops == 2 * 4096**3
    assert product.bytes == 3 * 4096 * 4096 * 2


def test_no_percentage_above_a_hundred(corpus: Path) -> None:
    rows = [r for name in GIVEN for r in _rows(corpus / name)] + [r for p in OWN.glob("*.tar.?z") for r in _rows(p)]
    for row in rows:
        assert (row.kernel.compute_pct or 0) <= 100
        assert (row.kernel.memory_pct or 0) <= 100
        if row.kernel.bound != "unknown":
            assert row.kernel.bound_confidence is not None or row.kernel.category == "user_triton"


def test_bytes_agree_with_the_counters(corpus: Path) -> None:
    """Kernels above twice the L2: what passes memory's pins (``dram_bytes``) is within 15 % of the counters for 85 % of them."""
    rows = {(r.capture, r.kernel.id): r for name in GIVEN for r in _rows(corpus / name)}
    rows |= {(r.capture, r.kernel.id): r for path in OWN.glob("*.tar.?z") for r in _rows(path)}
    large = [r for r in rows.values() if r.kernel.bytes and r.kernel.bytes > 2 * r.l2_bytes]
    good = [r for r in large if r.kernel.dram_bytes and abs(r.kernel.dram_bytes / r.dram_bytes - 1) <= 0.15]
    assert len(large) > 200
    assert len(good) >= 0.85 * len(large)


def test_normalisations_do_little_work_a_byte(corpus: Path) -> None:
    """The roofline guide: layer norm, softmax and residual additions stay below five operations a byte."""
    rows = [r for name in GIVEN for r in _rows(corpus / name)]
    few = {
        r.kernel.symbol: r.kernel.arithmetic_intensity
        for r in rows
        if r.triton
        and any(w in r.kernel.symbol for w in ("layer_norm", "softmax", "_add_"))
        and "elu" not in r.kernel.symbol  # an activation that was fused with it does more
    }
    assert len(few) > 10
    known = [v for v in few.values() if v is not None]
    assert len(known) >= 0.9 * len(few)
    assert max(known) < 5


def test_candidates_are_worth_their_check(corpus: Path) -> None:
    figures = candidate_score.summary(
        [r for name in ("mlp_train", "encoder_train") for r in candidate_score.score_capture(corpus / name)]
    )
    assert figures["precision"] >= 0.50
    assert figures["recall"] >= 0.80
    assert figures["recoverable_time"] >= 0.90


def test_a_wrong_prediction_counts_as_wrong() -> None:
    row = _rows(_own("decode"))[0]
    before = row.kernel.bound
    try:
        row.kernel.bound = "unknown"
        assert not row.right
    finally:
        row.kernel.bound = before


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >(int, float)",
            "void at::vectorized_elementwise_kernel<4, at::FillFunctor<float>, std::array<char *, 1>>(int, T2, T3)",
        ),
        (
            "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::X<1> >(at::X<1>)",
            "void at::<unnamed>::multi_tensor_apply_kernel<at::<unnamed>::X<1>>(T1, T2)",
        ),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
    ],
)
def test_names_of_the_two_tools_meet(ours: str, theirs: str) -> None:
    from roofline_score import normalised

    assert normalised(ours) == normalised(theirs)
