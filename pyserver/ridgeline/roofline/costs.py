"""What Triton 3.6 makes of an operation for sm_90: instructions an element, and the units that execute them.

No number is fitted to counters: each is the difference between two kernels, with the operation and without, divided by the
elements of a thread (``tests/golden/roofline_costs.py`` compiles them and prints the table; it needs no GPU).
"""

from __future__ import annotations

COST: dict[str, float] = {
    "float": 1.0,  # a product that feeds a sum is one instruction with it
    "compare": 1.0,
    "index_compare": 1.0,
    "where": 1.0,
    "logic": 1.0,
    "nan_max": 3.0,  # FSETP, FSETP, FSEL: a maximum that keeps NaN
    "divide_constant": 1.0,  # by its reciprocal
    "divide": 8.0,  # div.full: scaling for large divisors, reciprocal
    "reciprocal": 4.0,
    "divide_by_row": 3.3,
    "exp": 9.2,  # libdevice: range reduction, MUFU.EX2, scaling
    "exp_fast": 5.0,  # tl.exp: a product, a guard for small results, MUFU.EX2
    "exp2": 1.0,
    "expm1": 25.4,
    "erf": 28.4,  # two polynomials and a select
    "erfinv": 40.5,
    "sigmoid": 12.1,  # exponential and division
    "log": 25.5,
    "log1p": 29.6,
    "rsqrt": 1.0,
    "sqrt": 1.0,
    "sqrt_rn": 10.0,  # without the call for rare operands, which is jumped over
    "tanh": 22.4,
    "sinh": 33.4,
    "sin": 40.0,  # reduction by three-part pi/2, two polynomials; without the rarely taken exact reduction
    "asin": 17.2,
    "atan2": 63.9,
    "fmod": 24.0,
    "pow": 55.0,  # without the special cases, which are jumped over
    "lgamma": 211.0,
    "round": 1.0,
    "integer": 1.0,
    "integer64": 2.0,
    "integer_divide": 26.0,
    "widen": 1.0,  # bfloat16: a shift or a selection of bytes
    "widen_fp16": 1.0,  # HADD2.F32, in the multiply unit
    "half": 0.5,  # a sum or product of two halves that is one again, in pairs
    "narrow": 0.5,  # two values a conversion
    "convert8": 1.0,
    "unpack": 2.0,  # a byte that is a flag: out of its word, compared with 0
    "int_float": 1.0,
    "byte_float": 1.0,  # takes the byte out of its word
    "float_int": 1.0,
    "convert64": 1.0,
    "double": 1.0,
    "double_divide": 26.0,
    "double_sqrt": 28.0,
    "double_pow": 192.0,  # most of it in a function that is called
    "double_function": 75.0,  # exp 40, log 84, sin 67, erf 80, tanh 100
    "philox": 51.0,  # ten rounds of two wide products
    "index_add": 1.0,
    "index_and": 1.0,
    "index_multiply": 1.0,
    "index_shift": 1.5,  # a signed shift
    "index_mask": 3.4,  # the remainder of a power of two, with its sign
    "index_narrow": 2.5,  # a remainder that is divided again: in 16 bits, unpacked and packed
    "index_divide": 3.6,  # wide product with a reciprocal, shift, correction of the sign
    "welford_step": 19.0,  # with its division, and what is chosen in the first trip and under a mask
    "welford_masked": 9.0,  # the same under a mask
    "welford_plain": 4.0,  # without a mask, in a loop: every reciprocal a constant or one for all
    "welford_counted": 6.0,  # in a loop that is unrolled, where the count is a constant
    "welford_combine": 19.0,
    "online_softmax_step": 28.5,  # two exponentials, NaN-keeping maximum, selects
    "online_softmax_first": 13.0,  # with nothing before it
    "index_step": 9.5,  # larger value, or the same at a smaller index
    "sort_step": 9.5,  # two shuffles, comparison, selects, moves
    "copied": 3.0,  # of an asynchronous copy in a pipelined loop: its pointer moves on in 64 bits, with its predicate
    "pipeline": 40.0,  # of a trip of one: buffers change, barriers, descriptors of the factors
    "unknown": 4.0,
    "loop": 3.0,
    "load": 1.0,
    "store": 1.0,
    "address": 2.0,  # base and offset added in 64 bits
    "atomic": 2.0,
    "program": 8.0,  # indices of thread and block, the end
    "policy": 5.0,
    "shuffled": 3.0,  # a word that changes lanes: a shuffle, two selects
    "exchanged": 1.0,  # a word through shared memory, in vectors; its addresses and the barrier are "exchange"
    "exchange": 14.0,
    "mask": 7.0,  # a truth value that goes to two other layouts, as bytes
    "turned": 2.0,  # an element that another axis is fast for: out of its word, stored alone; addresses are "turn"
    "turn": 30.0,
    "barrier": 6.0,  # what of that remains for further values, whose addresses are known
    "across": 12.0,  # of reductions across warps: addresses, predicates
    "barriers": 8.0,  # and of each
}
ALU: dict[str, float] = {
    "compare": 1, "index_compare": 1, "index_and": 1, "where": 1, "logic": 1, "nan_max": 1, "narrow": 1, "convert8": 1, "unpack": 1, "index_shift": 1, "index_mask": 0.66, "index_narrow": 1,
    "integer": 0.8, "integer64": 0.8, "integer_divide": 0.52, "index_add": 0.6, "index_divide": 0.55, "widen": 0.5, "reduce_max": 1.0, "reduce_max_fast": 0.7,
    "reduce_index": 1.0, "reduce_welford": 0.38, "reduce_counted": 0.1, "reduce_softmax": 0.4, "index_step": 1.0, "online_softmax_step": 0.45, "online_softmax_first": 0.5, "philox": 0.39,
    "sort_step": 0.8, "welford_step": 0.5, "welford_combine": 0.38, "program": 0.4, "erf": 0.13, "exp": 0.11, "exp_fast": 0.2, "sigmoid": 0.25,
    "log": 0.38, "log1p": 0.32, "tanh": 0.2, "divide": 0.29, "divide_by_row": 0.08, "sin": 0.37, "pow": 0.4, "atan2": 0.33, "fmod": 0.38,
    "expm1": 0.36, "asin": 0.29, "sinh": 0.26, "loop": 0.6, "address": 0.5, "shuffled": 0.67, "exchange": 0.6, "turned": 0.5, "turn": 0.6, "across": 0.6, "int_float": 1.0,
    "copied": 0.5, "pipeline": 0.4,
}  # fmt: skip
"""Share of an operation's instructions that the integer and comparison unit executes, at half the schedulers' rate."""
HEAVY: dict[str, float] = {
    "philox": 0.91,
    "index_divide": 0.55,
    "integer_divide": 0.28,
    "address": 0.5,
    "index_multiply": 1.0,
}
"""Share that needs the half of the multiply unit that does integer products, counting wide ones double."""
SPECIAL: dict[str, float] = {
    "exp": 1, "exp_fast": 1, "exp2": 1, "expm1": 2, "erf": 1, "erfinv": 3, "divide": 1, "reciprocal": 1, "log": 0, "log1p": 0, "rsqrt": 1,
    "sqrt": 1, "sqrt_rn": 1, "sigmoid": 2, "tanh": 2, "sinh": 3, "sin": 1, "asin": 1, "atan2": 2, "fmod": 4, "pow": 3, "lgamma": 5, "round": 1,
    "welford_step": 1, "welford_combine": 1, "online_softmax_step": 2, "online_softmax_first": 0.5, "convert64": 1, "integer_divide": 5, "float_int": 1, "byte_float": 1,
    "double_divide": 1, "double_sqrt": 1, "double_pow": 1, "reduce_welford": 1, "reduce_softmax": 1,
}  # fmt: skip
"""Instructions of the special-function unit an element (MUFU; rounding, and conversions between whole numbers and floats, to
and from double run there too)."""
DOUBLE: dict[str, float] = {"double": 1, "double_divide": 8, "double_sqrt": 9, "double_pow": 82, "double_function": 29}
REDUCE: dict[str, tuple[float, int]] = {
    # instructions to combine two partial results, words of one (each is shuffled)
    "reduce_sum": (1.0, 1),
    "reduce_product": (1.0, 1),
    "reduce_max": (3.0, 1),
    "reduce_max_fast": (1.0, 1),
    "reduce_index": (9.5, 2),
    "reduce_welford": (18.5, 3),
    "reduce_counted": (7.3, 2),  # where the counts are constants: no division, and they are not exchanged
    "reduce_softmax": (4.5, 2),
    "scan": (1.0, 1),
}
ELEMENT: dict[str, float] = {"reduce_softmax": 12.2}
"""What such a reduction does with every element before it combines them: here the exponential."""
FLOPS: dict[str, float] = {
    "float": 1, "double": 1, "divide": 1, "divide_by_row": 1, "divide_constant": 1, "exp": 1, "exp_fast": 1, "exp2": 1, "expm1": 1, "erfinv": 1, "sqrt_rn": 1, "sinh": 1, "asin": 1, "atan2": 1, "fmod": 1, "lgamma": 1, "erf": 1, "log": 1, "log1p": 1,
    "rsqrt": 1, "sqrt": 1, "tanh": 1, "sin": 1, "pow": 1, "sigmoid": 3, "welford_step": 6, "welford_combine": 8, "online_softmax_step": 5,
    "double_divide": 1, "double_sqrt": 1, "double_pow": 1, "double_function": 1, "reduce_sum": 1, "reduce_product": 1, "reduce_max": 0, "reduce_max_fast": 0,
    "reduce_welford": 8, "reduce_counted": 6, "reduce_softmax": 4, "scan": 1,
}  # fmt: skip
"""Floating-point operations an element as a person counts them: a function is one."""
