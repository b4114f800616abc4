"""The rules, one module each. A rule looks at ``Facts`` and returns candidates; it never looks at another's answer."""

from __future__ import annotations

from collections.abc import Callable

from ridgeline.findings.candidate import Candidate
from ridgeline.findings.facts import Facts
from ridgeline.findings.rules import (
    attention,
    bias_copy,
    bucket_copies,
    channels_last,
    clocks,
    cold_start,
    compile_events,
    compiled_overhead,
    constants,
    conv_bias,
    convolution_operands,
    data_loading,
    debug_mode,
    decode,
    exposed_communication,
    fallback,
    float64,
    hidden_sync,
    host_round_trip,
    host_work,
    idle,
    launch_bound,
    memory,
    padding,
    pageable_copy,
    pinned_copy,
    profiler_idle,
    provenance_gap,
    single_tensor_optimizer,
    small_kernels,
    tensor_core_shape,
    tf32_off,
    variation,
    window,
    zero_grad,
)

Rule = Callable[[Facts], list[Candidate]]

RULES: tuple[Rule, ...] = tuple(
    module.rule
    for module in (
        data_loading,
        hidden_sync,
        host_round_trip,
        pageable_copy,
        pinned_copy,
        exposed_communication,
        launch_bound,
        host_work,
        small_kernels,
        idle,
        compile_events,
        compiled_overhead,
        fallback,
        bias_copy,
        tf32_off,
        float64,
        channels_last,
        convolution_operands,
        tensor_core_shape,
        conv_bias,
        constants,
        single_tensor_optimizer,
        zero_grad,
        bucket_copies,
        attention,
        decode,
        padding,
        memory,
        cold_start,
        window,
        profiler_idle,
        variation,
        clocks,
        debug_mode,
        provenance_gap,
    )
)
