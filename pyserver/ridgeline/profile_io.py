"""Reading, writing and the JSON Schema of the profile document."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from ridgeline.profile import SCHEMA, ProfileDocument
from ridgeline.sidecar import Sidecar


class _Version(msgspec.Struct):
    schema: int = SCHEMA


class UnreadableError(Exception):
    """An input that cannot be used; the message is one line: what, where, what to do."""


def to_json(document: ProfileDocument) -> bytes:
    """Strict JSON: a float that is not finite becomes ``null`` (msgspec's rule), a byte of a path that is no UTF-8 ``?``."""
    try:
        return msgspec.json.encode(document)
    except UnicodeEncodeError:
        return msgspec.json.encode(_without_surrogates(msgspec.to_builtins(document)))


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_surrogates(inner) for inner in value]
    return value


def from_json(data: bytes, *, where: str = "profile") -> ProfileDocument:
    """Decode a document. Unknown fields are ignored, so a newer minor writer can be read.

    Raises :class:`UnreadableError` where the data is not a profile of a schema that this version knows.
    """
    try:
        # First and by itself: a newer document need not have the fields of this version.
        schema = msgspec.json.decode(data, type=_Version).schema
        if schema <= SCHEMA:
            return msgspec.json.decode(data, type=ProfileDocument)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UnreadableError(f"{where} is not a Ridgeline profile ({error}); profile or analyze again") from error
    raise UnreadableError(f"{where} has profile schema {schema}, this version reads up to {SCHEMA}; update Ridgeline")


def read(path: Path) -> ProfileDocument:
    """Read ``profile.json``, or the one inside a run folder."""
    file = path / "profile.json" if path.is_dir() else path
    try:
        data = file.read_bytes()
    except OSError as error:
        raise UnreadableError(f"cannot read {file}: {error.strerror}; name a run folder or a profile.json") from error
    return from_json(data, where=str(file))


def write(document: ProfileDocument, path: Path) -> None:
    """Write atomically: a reader sees the old file or the whole new one."""
    write_atomically(path, to_json(document))


def write_atomically(path: Path, data: bytes) -> None:
    """Write beside ``path`` and rename into place."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of the document, generated from the types."""
    schema = msgspec.json.schema(ProfileDocument)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = f"Ridgeline profile, schema {SCHEMA}"
    return schema


def read_sidecar(path: Path) -> Sidecar:
    """Raises :class:`UnreadableError` where the file is not a sidecar."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Sidecar)
    except OSError as error:
        raise UnreadableError(f"cannot read {path}: {error.strerror}; is the run folder complete?") from error
    except (msgspec.MsgspecError, RecursionError) as error:
        raise UnreadableError(f"{path} is damaged ({error}); profile again") from error
