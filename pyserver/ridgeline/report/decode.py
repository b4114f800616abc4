"""A profile document from decoded JSON with the standard library alone, where :mod:`ridgeline.profile_io` has no msgspec."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ridgeline.profile import SCHEMA, ProfileDocument


class MalformedError(ValueError):
    """Not a profile document; the message says where."""


def document(data: Any) -> ProfileDocument:
    """Unknown fields are ignored, absent ones take their defaults. Raises :class:`MalformedError`."""
    schema = data.get("schema", SCHEMA) if isinstance(data, Mapping) else None
    if not isinstance(schema, int) or schema > SCHEMA:
        raise MalformedError(f"a profile of schema {schema}; this version reads up to {SCHEMA}")
    made = _value(ProfileDocument, data, "profile")
    assert isinstance(made, ProfileDocument)
    return made


@cache
def _fields(kind: type) -> list[tuple[str, Any, bool]]:
    """(name, type, whether it must be there)"""
    hints = get_type_hints(kind)
    return [(f.name, hints[f.name], f.default is MISSING and f.default_factory is MISSING) for f in fields(kind)]


def _value(kind: Any, value: Any, where: str) -> Any:
    if kind is Any:
        return value
    if isinstance(kind, type) and is_dataclass(kind):
        if not isinstance(value, Mapping):
            raise MalformedError(f"{where} is no object")
        given = {}
        for name, wanted, needed in _fields(kind):
            if name in value:
                given[name] = _value(wanted, value[name], f"{where}.{name}")
            elif needed:
                raise MalformedError(f"{where} has no {name}")
        return kind(**given)
    if kind is float:
        # As JSON has it: a whole number is one too.
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    elif kind in (int, str, bool):
        if type(value) is kind:
            return value
    else:
        return _compound(kind, value, where)
    raise MalformedError(f"{where} is no {kind.__name__}")


def _compound(kind: Any, value: Any, where: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        (inner,) = [argument for argument in arguments if argument is not type(None)]
        return _value(inner, value, where)
    if origin is Literal and value in arguments:
        return value
    if origin is list and isinstance(value, list):
        return [_value(arguments[0], item, f"{where}[{index}]") for index, item in enumerate(value)]
    if origin is tuple and isinstance(value, list) and len(value) == len(arguments):
        return tuple(_value(inner, item, where) for inner, item in zip(arguments, value))
    if origin is dict and isinstance(value, Mapping):
        return {str(key): _value(arguments[1], item, f"{where}.{key}") for key, item in value.items()}
    raise MalformedError(f"{where} does not have the form of {kind}")
