"""Ridgeline: perfetto."""
