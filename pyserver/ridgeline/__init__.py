"""Ridgeline: kernel timings on your source lines."""

__version__ = "0.1.0"
