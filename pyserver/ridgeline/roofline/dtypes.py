"""Element types under the names that traces, Triton, C++ and PyTorch give them: their size and the rate that they use."""

from __future__ import annotations

_SIZES: dict[int, tuple[str, ...]] = {
    1: (
        "bool", "signed char", "unsigned char", "char", "int8", "uint8", "i1", "i8", "u8", "int1", "int8_t", "uint8_t",
        "fp8e4nv", "fp8e5", "fp8e4b8", "fp8e5b16", "fp8e4b15", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu",
        "c10::float8_e4m3fn", "c10::float8_e5m2", "c10::float8_e4m3fnuz", "c10::float8_e5m2fnuz", "c10::float8_e8m0fnu", "c10::qint8", "c10::quint8", "u1",
    ),
    2: ("c10::bfloat16", "c10::half", "bfloat16", "float16", "half", "bf16", "fp16", "__nv_bfloat16", "__half", "short", "short int", "int16", "uint16", "i16", "u16", "int16_t", "at::bfloat16", "at::half"),
    4: ("float", "float32", "fp32", "int", "int32", "uint32", "i32", "u32", "int32_t", "c10::qint32", "unsigned int", "c10::complex<c10::half>", "c10::complexhalf"),
    8: ("double", "float64", "fp64", "long int", "long", "int64", "uint64", "i64", "u64", "int64_t", "long long", "unsigned long", "c10::complex<float>", "complex64"),
    16: ("c10::complex<double>", "complex128"),
}  # fmt: skip
_SIZE_OF = {name: size for size, names in _SIZES.items() for name in names}

_RATES: dict[str, tuple[str, ...]] = {
    "bf16": ("c10::bfloat16", "bfloat16", "bf16", "__nv_bfloat16", "at::bfloat16"),
    "fp16": ("c10::half", "half", "float16", "fp16", "__half", "at::half"),
    "fp32": ("float", "float32", "fp32", "c10::complex<float>", "complex64"),
    "fp64": ("double", "float64", "fp64", "c10::complex<double>", "complex128"),
    "int8": ("signed char", "unsigned char", "int8", "uint8", "i8", "u8", "char", "c10::qint8", "c10::quint8"),
}
_RATE_OF = {name: rate for rate, names in _RATES.items() for name in names}


def itemsize(name: str | None) -> int | None:
    """Bytes an element; None for what is no tensor of numbers (``Scalar``, ``TensorList``, unknown)."""
    return _SIZE_OF.get(name.strip().lower()) if name else None


def rate_key(name: str | None) -> str | None:
    """Key in ``DeviceSpec.flops``: bf16, fp16, fp32, fp64, fp8, int8; None for integers without matrix units."""
    if not name:
        return None
    name = name.strip().lower()
    return "fp8" if "float8" in name or name.startswith("fp8") else _RATE_OF.get(name)
