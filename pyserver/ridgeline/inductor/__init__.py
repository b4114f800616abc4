"""Ridgeline: inductor."""
