"""What of an operation on doubles stays on a CPU once they are single precision.

Timed one beside the other on a Xeon with AVX-512, torch 2.13, one thread, for 30,000 to 800,000 numbers.
"""

from __future__ import annotations

import re

from ridgeline.findings.facts import Facts
from ridgeline.findings.overhead import OP_US

FLOATS = ("float", "c10::Half", "c10::BFloat16")
HALF = 0.5
"""Half the bytes, and twice the numbers in a vector: arithmetic and reductions 0.44 to 0.55, products 0.48 to 0.67, exponentials,
logarithms and sigmoids 0.36 to 0.57."""
LITTLE = 0.25
"""Of what has a kernel of its own for single precision alone: convolutions 0.23, GELU 0.11 to 0.21, tanh 0.2 to 0.3, random numbers 0.21."""
QUICK = re.compile(r"aten::(.*convolution.*|.*conv2d.*|gelu.*|tanh.*|normal_)")
ONE_BY_ONE = re.compile(
    r"aten::(.*pool.*|where|masked_.*|index.*|_index.*|gather|scatter.*|sort|topk|argmax|argmin|cum.*|var.*|std.*|native_.*norm.*|"
    r"batch_norm.*|eq|ne|ge|gt|le|lt|nonzero|searchsorted|bucketize|embedding.*|unique.*)"
)
"""Operations that take number after number: 0.9 to 1.5 (average pooling 1.1 to 1.8, a comparison 0.97, ``where`` 0.95)."""


def left(facts: Facts, op: int, own_us: float) -> float:
    """Part of an operation's own time that stays: nothing of a conversion between double and single precision; of others what they
    cost whatever they compute, and of what they compute by their kind."""
    name = facts.op_name(op)
    kinds = [kind for kind, shape in zip(facts.types_of(op), facts.dims_of(op)) if shape]
    if name == "aten::copy_" and "double" in kinds[:2] and any(kind in FLOATS for kind in kinds[:2]):
        return 0.0
    part = 1.0 if ONE_BY_ONE.fullmatch(name) else LITTLE if QUICK.fullmatch(name) else HALF
    computing = max(0.0, own_us - OP_US)
    return (own_us - computing * (1.0 - part)) / own_us if own_us > 0 else 1.0
