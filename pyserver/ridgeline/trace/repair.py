"""Mends what exporters break in JSON text, without guessing at structure.

Each mend keeps the text's structure: a backslash that starts no legal escape becomes a literal one, a lone surrogate
and bytes that are no UTF-8 become the replacement character, a raw control character inside a string is escaped,
values that are no JSON (NaN, Infinity, None, undefined) become null, a trailing comma is dropped and one missing between objects
put in. What still does not
parse is for the caller to leave out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

ESCAPES = "escapes"
UTF8 = "utf8"
CONTROL = "control"
NUMBERS = "numbers"
COMMAS = "commas"

_BACKSLASH = re.compile(
    rb"\\(?:"
    rb"(?P<pair>u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|(?P<legal>[\"\\/bfnrt]|u[0-9a-fA-F]{4})"
    rb")?"
)
_DOUBTFUL = re.compile(rb'\\(?!["\\/bfnrt]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4})')
"""Finds nothing where all escapes are legal: a search at full speed over text that is full of legal ones."""
_NUMBER = re.compile(rb'(":\s*)[+-]?(?:NaN|nan|Infinity|infinity|Inf|inf|1\.#INF|1\.#IND|-?nan\(ind\))(?=\s*[,}\]])')
_TOKEN = re.compile(
    rb'"(?P<text>[^"\\]*(?:\\.[^"\\]*)*)"'
    rb"|(?P<word>[+-]?(?:NaN|nan|Infinity|infinity|Inf|inf|None|undefined)\b)"
    rb"|(?P<true>\bTrue\b)|(?P<false>\bFalse\b)"
    rb"|,\s*(?P<close>[}\]])"
    rb"|(?P<open>\})\s*(?=\{)",
    re.DOTALL,
)
_CONTROL = re.compile(rb"[\x00-\x1f]")


def mend(text: bytes) -> tuple[bytes, Counter[str]]:
    """The mends that need no look at the structure: fast, for whole chunks. Returns the text and counts by kind."""
    done: Counter[str] = Counter()
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        decoded = text.decode("utf-8", "replace")
        done[UTF8] = max(1, decoded.count("�") - text.count("�".encode()))
        text = decoded.encode("utf-8")
    if _DOUBTFUL.search(text) is not None:
        text, count = _replaced(_BACKSLASH, text, _literal)
        if count:
            done[ESCAPES] = count
    text, count = _NUMBER.subn(rb"\1null", text)
    if count:
        done[NUMBERS] = count
    return text, done


def mend_thoroughly(text: bytes) -> tuple[bytes, Counter[str]]:
    """Also the mends that must know what is inside a string: several times slower."""
    text, done = mend(text)

    def fix(match: re.Match[bytes]) -> bytes | None:
        group = match.lastgroup
        if group == "text":
            inner = match.group("text")
            if _CONTROL.search(inner) is None:
                return None
            fixed, count = _CONTROL.subn(lambda found: b"\\u%04x" % found.group()[0], inner)
            done[CONTROL] += count
            return b'"' + fixed + b'"'
        if group == "close":
            done[COMMAS] += 1
            return match.group("close")
        if group == "open":
            done[COMMAS] += 1
            return b"},"
        done[NUMBERS] += 1
        return {"true": b"true", "false": b"false"}.get(group or "", b"null")

    return _replaced(_TOKEN, text, fix)[0], done


def _literal(match: re.Match[bytes]) -> bytes | None:
    if match.lastgroup in ("legal", "pair"):
        return None
    return b"\\ufffd" if match.lastgroup == "lone" else b"\\\\"


def _replaced(
    pattern: re.Pattern[bytes], text: bytes, instead: Callable[[re.Match[bytes]], bytes | None]
) -> tuple[bytes, int]:
    """``pattern.sub`` where most matches stay as they are (None): those cost no memory. Returns how many did not."""
    parts: list[bytes] = []
    end = 0
    for match in pattern.finditer(text):
        new = instead(match)
        if new is not None:
            parts += (text[end : match.start()], new)
            end = match.end()
    return (b"".join((*parts, text[end:])), len(parts) // 2) if parts else (text, 0)


_ESCAPE_OF = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f"}
_SWALLOWED = re.compile(r"[\n\t\r\b\f]")
_PATH_AND_LINE = re.compile(r"(?P<path>[^<(][^(]*\.pyw?)(?P<rest>\(\d+\): .*)", re.DOTALL)


def path_again(name: str) -> str:
    """``name`` with control characters in the path of ``path(line): function`` put back to backslash and letter.

    An unescaped Windows path such as ``proj\\new.py(3): f`` is legal JSON with a line break in it; no path has one.
    """
    if _SWALLOWED.search(name) is None or (match := _PATH_AND_LINE.fullmatch(name)) is None:
        return name
    return _SWALLOWED.sub(lambda found: _ESCAPE_OF[found.group()], match["path"]) + match["rest"]
