"""The rules, one module each. A rule looks at ``Facts`` and returns candidates; it never looks at another's answer."""

from __future__ import annotations

from collections.abc import Callable

from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.findings.rules import (
    attention,
    bias_copy,
    channels_last,
    clocks,
    compile_events,
    compiled_overhead,
    conv_bias,
    data_loading,
    decode,
    exposed_communication,
    fallback,
    float64,
    hidden_sync,
    host_round_trip,
    idle,
    launch_bound,
    measurement,
    memory,
    optimizer,
    padding,
    pageable_copy,
    provenance_gap,
    small_kernels,
    tensor_core_shape,
    tf32_off,
)

Rule = Callable[[Facts], list[Candidate]]

RULES: tuple[Rule, ...] = tuple(
    module.rule
    for module in (
        data_loading,
        hidden_sync,
        host_round_trip,
        pageable_copy,
        exposed_communication,
        launch_bound,
        small_kernels,
        idle,
        compile_events,
        compiled_overhead,
        fallback,
        bias_copy,
        tf32_off,
        float64,
        channels_last,
        tensor_core_shape,
        conv_bias,
        optimizer,
        attention,
        decode,
        padding,
        memory,
        measurement,
        clocks,
        provenance_gap,
    )
)
