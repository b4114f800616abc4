"""The one error that reading a trace raises."""

from __future__ import annotations


class TraceError(ValueError):
    """The input is no trace that can be read. The text is one sentence for the person: what, where, what to do."""
