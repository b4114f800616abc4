"""What may leave the machine in a page: no secrets, no folders of the person who made it. Standard library only."""

from __future__ import annotations

import os
import re
from pathlib import PurePath, PurePosixPath, PureWindowsPath

from ridgeline.profile import ProfileDocument

HIDDEN = "[redacted]"

_SECRET_WORDS = frozenset(
    ("token", "secret", "password", "passwd", "pwd", "passphrase", "apikey", "credential", "credentials", "auth")
)
_KEY_KINDS = frozenset(("api", "access", "private", "secret", "account", "encryption", "signing"))
"""What makes a ``key`` one that opens something: ``--sort-key`` is none."""

_TOKEN = re.compile(
    r"\b(?:sk-[\w-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|hf_[A-Za-z0-9]{20,}"
    r"|xox[abeoprs]-[\w-]{10,}|A(?:KIA|SIA)[0-9A-Z]{16}|AIza[\w-]{30,}|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{40,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
)
"""Tokens that can be told by their form alone (the issuers' documented prefixes; JSON web tokens)."""
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[\w.+/=~-]{8,}")
_USERINFO = re.compile(r"(?<=://)[^/\s@'\"]+@")
_LITERAL = re.compile(
    r"""(?ix)\b(\w*(?:password|passwd|secret|token|api_?key|access_?key|private_?key|credential)\w*["']?\s*[:=]\s*[a-z]{0,2})
    (["'])(?:(?!\2).){4,}\2"""
)
"""A string that is assigned to such a name in a line of source; ``tokens = tokenizer(x)`` holds no string."""
_DENSE = re.compile(r"[A-Za-z0-9+/=_-]{32,}")
_ABSOLUTE = re.compile(r"(?<![\w./:~<\\])(?:/|[A-Za-z]:[\\/])(?:[\w.+@%=~-]+[\\/])+[\w.+@%=~-]+")

_HOME = re.compile(r"(?:/home/|/Users/|[A-Za-z]:[\\/]Users[\\/])[^/\\\s'\":,;)]+")
"""A person's folder, in whatever it stands: ``-I/home/me/include``, ``file:///home/me``."""


class Redactor:
    """Makes paths relative and takes secrets out; ``count`` says how many were found."""

    def __init__(self, document: ProfileDocument) -> None:
        self._kind = {file.path: file.kind for file in document.files}
        self._root = {file.path: file.root for file in document.files if file.root}
        own = [file.path for file in document.files if file.kind == "user" and file.path.startswith("/")]
        common = os.path.commonpath([os.path.dirname(path) for path in own]) if own else ""
        # "/home" is above the folder that names the person; nothing is relative to that.
        self._common = common if len(PurePosixPath(common).parts) > 2 else ""
        self.count = 0

    def path(self, path: str) -> str:
        """Relative to the program's folder; library and generated files, and whatever lies elsewhere, by their ends."""
        pure: PurePath = PureWindowsPath(path) if re.match(r"[A-Za-z]:[\\/]", path) else PurePosixPath(path)
        if not pure.is_absolute():
            return self.text(path, paths=False)
        parts = pure.parts
        kind = self._kind.get(path)
        for marker in ("site-packages", "dist-packages"):
            if marker in parts:
                return "/".join(parts[parts.index(marker) + 1 :])
        if kind != "generated":
            for root in (self._root.get(path), self._common):
                if root and root != "/" and path.startswith(root.rstrip("/") + "/"):
                    return self.text(path[len(root.rstrip("/")) + 1 :], paths=False)
        return self.text("/".join(parts[-2:] if kind == "generated" and len(parts) > 2 else parts[-1:]), paths=False)

    def title(self, path: str) -> str:
        """A run or a trace by its last two names: ``trace.json.gz`` alone would say nothing."""
        parts = [part for part in PurePosixPath(path.replace("\\", "/")).parts if part not in ("/", "..")]
        return self.text("/".join(parts[-2:]), paths=False)

    def text(self, text: str, *, paths: bool = True) -> str:
        """Free text, a kernel's name or a line of source."""
        for pattern, shown in (
            (_TOKEN, HIDDEN),
            (_BEARER, rf"\1 {HIDDEN}"),
            (_USERINFO, f"{HIDDEN}@"),
            (_LITERAL, rf"\1\2{HIDDEN}\2"),
        ):
            text, found = pattern.subn(shown, text)
            self.count += found
        if paths:
            text = _ABSOLUTE.sub(lambda match: "~" if _HOME.fullmatch(match[0]) else self.path(match[0]), text)
        return _HOME.sub("~", text)

    def argv(self, argv: list[str]) -> list[str]:
        """A command line: the values of options and variables that are named like secrets, and what looks like one."""
        shown = []
        hide_next = False
        for argument in argv:
            name, equals, value = argument.partition("=")
            if hide_next and not argument.startswith("--"):
                shown.append(self._hide())
                hide_next = False
                continue
            secret = _names_a_secret(name)
            hide_next = secret and not equals and argument.startswith("-")
            if secret and equals:
                shown.append(f"{name}={self._hide()}")
            elif _looks_random(value or argument):
                shown.append(f"{name}={self._hide()}" if value else self._hide())
            else:
                shown.append(self.text(argument))
        return shown

    def _hide(self) -> str:
        self.count += 1
        return HIDDEN


def _names_a_secret(name: str) -> bool:
    words = [word for word in re.split(r"[-_.]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()) if word]
    return any(
        word in _SECRET_WORDS or (word == "key" and before in _KEY_KINDS) for before, word in zip(["", *words], words)
    )


def _looks_random(value: str) -> bool:
    """Long, and of all three kinds of characters, as keys in base64 are; hexadecimal digests and names are not."""
    return (
        _DENSE.fullmatch(value) is not None
        and not value.startswith(("/", "-"))
        and all(re.search(kind, value) for kind in ("[a-z]", "[A-Z]", "[0-9]"))
    )
