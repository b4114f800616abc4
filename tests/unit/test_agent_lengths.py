"""Real lengths of padded batches: what shows them, what does not, and when nobody looks."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ridgeline.agent.lengths import CALLS, Lengths, sample  # noqa: E402

pytestmark = pytest.mark.torch
LENGTHS = [3, 9, 12, 5]
WIDTH = 12


def _ids(pad: int = 0) -> Any:
    ids = torch.arange(1, len(LENGTHS) * WIDTH + 1).reshape(len(LENGTHS), WIDTH)
    return torch.where(_real(), ids, torch.full_like(ids, pad))


def _real() -> Any:
    return torch.arange(WIDTH)[None] < torch.tensor(LENGTHS)[:, None]


@pytest.mark.parametrize(
    "named",
    [
        [("input_ids", torch.ones(4, WIDTH)), ("attention_mask", _real().long())],
        [("attention_mask", _real().flip(1).long())],
        [("src_key_padding_mask", ~_real())],
        [("", torch.ones(4, WIDTH)), ("", _real())],
        [("", torch.ones(4, WIDTH)), ("", ~_real())],
        [("x", torch.ones(4, WIDTH, 7)), ("lengths", torch.tensor(LENGTHS))],
        [("frames", torch.ones(WIDTH, 4, 7)), ("frame_lens", LENGTHS)],
        [("", _real()[:, :, None] * torch.rand(4, WIDTH, 7).add(0.5)), ("", torch.tensor(LENGTHS))],
        [("", _ids())],
        [("", _ids(pad=-1)), ("", torch.tensor([0, 1, 1, 0]))],
    ],
)
def test_what_shows_lengths(named: list[tuple[str, Any]]) -> None:
    assert sample(named) == (LENGTHS, WIDTH)


@pytest.mark.parametrize(
    "named",
    [
        [("", torch.rand(4, WIDTH)), ("", torch.tensor([3, 1, 2, 1]))],
        [("pixels", torch.rand(4, 3, 8, 8)), ("label", torch.tensor([3, 1, 2, 1]))],
        [("mlm_mask", torch.tensor([[True, False, True, False]] * 4))],
        [("", torch.arange(48).reshape(4, 12))],
        [("", torch.tensor([[1, 0, 2, 0, 3, 0, 1, 0]] * 4))],
        [("", torch.full((4, WIDTH), 5))],
        [("edge_index", torch.tensor([[0, 1, 2], [1, 2, 0]]))],
        [("len", torch.tensor(4))],
        [],
    ],
)
def test_what_shows_none(named: list[tuple[str, Any]]) -> None:
    named = [(name, value) for name, value in named if isinstance(value, list) or value.dim() > 0]
    assert sample(named) is None


class _Model(torch.nn.Module):  # type: ignore[name-defined,misc]
    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(64, 4)

    def forward(self, ids: Any, scale: float = 1.0) -> Any:
        return self.embed(ids) * scale


def _watching(state: list[str]) -> tuple[Lengths, list[Any]]:
    complaints: list[Any] = []
    lengths = Lengths(True, lambda path: path == __file__, lambda: state[0], lambda *said: complaints.append(said))
    lengths.on_module(torch.nn.modules.module)
    return lengths, complaints


def test_the_outermost_modules_inputs_by_position_and_by_name() -> None:
    lengths, complaints = _watching(["settle"])
    try:
        model = torch.nn.Sequential(_Model())
        model(_ids())
        _Model()(ids=_ids(), scale=2.0)
    finally:
        lengths.leave()
    assert lengths.samples == [(LENGTHS, WIDTH)] * 2, "once a call, not once a module"
    assert lengths.place is not None
    assert lengths.place[0] == __file__
    assert complaints == []


def test_nothing_is_looked_at_in_the_window_and_the_hook_is_gone() -> None:
    state = ["settle"]
    lengths, _ = _watching(state)
    state[0] = "warm"
    _Model()(_ids())
    lengths.batch({"attention_mask": _real()})
    assert lengths.samples == []
    assert not torch.nn.modules.module._global_forward_pre_hooks


def test_enough_is_enough() -> None:
    lengths, _ = _watching(["settle"])
    for _ in range(CALLS + 1):
        _Model()(_ids())
    assert len(lengths.samples) == CALLS
    assert not torch.nn.modules.module._global_forward_pre_hooks


def test_what_the_module_takes_counts_more_than_what_the_loader_gave() -> None:
    lengths, _ = _watching(["settle"])
    try:
        lengths.batch((_ids(), torch.zeros(4)))
        assert lengths.samples == [(LENGTHS, WIDTH)]
        _Model()(torch.nn.functional.pad(_ids(), (0, 8)))
        assert lengths.samples == [(LENGTHS, WIDTH + 8)]
    finally:
        lengths.leave()


def test_tensors_that_cannot_be_read_end_it_without_harm() -> None:
    lengths, complaints = _watching(["settle"])
    try:
        torch.func.vmap(_Model())(torch.stack([_ids(), _ids()]))
    finally:
        lengths.leave()
    assert lengths.samples == [] or complaints == []
    assert not torch.nn.modules.module._global_forward_pre_hooks


def test_reading_leaves_no_operation_in_a_recording() -> None:
    lengths, _ = _watching(["early"])
    try:
        batch = {"ids": _ids(), "attention_mask": _real()}
        with torch.profiler.profile() as seen:
            lengths.batch(batch)
    finally:
        lengths.leave()
    assert lengths.samples == [(LENGTHS, WIDTH)]
    assert not [e.name for e in seen.events() if e.name.startswith("aten::")]


def test_without_the_option_nothing_is_hooked() -> None:
    lengths = Lengths(False, lambda path: True, lambda: "settle", lambda *said: None)
    lengths.on_module(torch.nn.modules.module)
    lengths.batch({"attention_mask": _real()})
    assert lengths.samples == []
    assert not torch.nn.modules.module._global_forward_pre_hooks
