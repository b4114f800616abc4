"""Signatures of generated kernels: the type of every argument, and which are written, from the text."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

_TRITON = {
    "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64", "i1": "bool", "i8": "int8",
    "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "fp8e4nv": "float8_e4m3fn", "fp8e5": "float8_e5m2", "fp8e4b8": "float8_e4m3fnuz", "fp8e5b16": "float8_e5m2fnuz",
}  # fmt: skip
_CPP = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "bool": "bool",
    "int8_t": "int8", "int16_t": "int16", "int32_t": "int32", "int64_t": "int64", "uint8_t": "uint8",
    "uint16_t": "uint16", "uint32_t": "uint32", "uint64_t": "uint64", "c10::Half": "float16", "at::Half": "float16",
    "at::BFloat16": "bfloat16", "c10::BFloat16": "bfloat16", "at::Float8_e4m3fn": "float8_e4m3fn",
    "at::Float8_e5m2": "float8_e5m2", "float8_e4m3fn": "float8_e4m3fn", "float8_e5m2": "float8_e5m2",
    "c10::complex<float>": "complex64", "c10::complex<double>": "complex128",
}  # fmt: skip
_COMMENT_TYPES = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "i8": "int8", "i16": "int16",
    "i32": "int32", "i64": "int64", "u8": "uint8", "b8": "bool", "c64": "complex64", "c128": "complex128",
    "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
}  # fmt: skip
_COMMENT = re.compile(r'^#\s+%(\w+) : Tensor "(\w+)\[.*= PlaceHolder', re.MULTILINE)
_SCALAR_META = re.compile(r"'(\w+)': (True|False|None|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|'[^']*')(?=[,}])")


@dataclass(slots=True, frozen=True)
class Signature:
    """Per positional argument of a call: torch's name of the element type, and whether it is a pointer, and its name."""

    names: tuple[str, ...] = ()
    dtypes: tuple[str | None, ...] = ()
    pointers: tuple[bool, ...] = ()

    def in_place(self, position: int) -> bool:
        return position < len(self.names) and self.names[position].startswith("in_out_ptr")


def signature(language: str, source: str) -> Signature:
    """Empty where the text does not tell."""
    return _of_triton(source) if language == "triton" else _of_cpp(source)


def _of_triton(source: str) -> Signature:
    value = _dict_after(source, "'signature': ")
    if not isinstance(value, dict):
        return Signature()
    rows = [(str(k), str(v)) for k, v in value.items() if v != "constexpr"]
    return Signature(
        names=tuple(name for name, _ in rows),
        dtypes=tuple(_TRITON.get(kind.lstrip("*").removesuffix(":ro")) for _, kind in rows),
        pointers=tuple(kind.startswith("*") for _, kind in rows),
    )


def _of_cpp(source: str) -> Signature:
    match = re.search(r"cpp\w*\(\[(?P<types>[^\]]*)\]", source)
    if match is None:
        return Signature()
    types = re.findall(r"'([^']*)'", match["types"])
    kernel = re.search(r"void\s+kernel\((?P<parameters>[^)]*)\)", source)
    names = [p.split()[-1].lstrip("*") for p in kernel["parameters"].split(",") if p.strip()] if kernel else []
    return Signature(
        names=tuple(names) if len(names) == len(types) else tuple("" for _ in types),
        dtypes=tuple(_CPP.get(kind.removeprefix("const ").rstrip("*").strip()) for kind in types),
        pointers=tuple(kind.endswith("*") for kind in types),
    )


def inductor_meta(source: str) -> dict[str, Any]:
    """The plain values (numbers, booleans, words) of ``inductor_meta={…}``; empty where there is none."""
    start = source.find("inductor_meta={")
    if start < 0:
        return {}
    row = source[start : source.find("\n", start)]
    found = {}
    for name, value in _SCALAR_META.findall(row):
        try:
            found[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            continue  # a damaged file: ``007``, a zero byte in a word
    return found


def dtype_of_comment(text: str) -> dict[str, str]:
    """Input -> type from the graph's comment: ``%primals_3 : Tensor "f32[2048, 4096]… = PlaceHolder``."""
    return {name: _COMMENT_TYPES[kind] for name, kind in _COMMENT.findall(text) if kind in _COMMENT_TYPES}


def _dict_after(source: str, label: str) -> Any:
    start = source.find(label + "{")
    if start < 0:
        return None
    start += len(label)
    end = source.find("}", start)
    try:
        return ast.literal_eval(source[start : end + 1])
    except (ValueError, SyntaxError):
        return None
