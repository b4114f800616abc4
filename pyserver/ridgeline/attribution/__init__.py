"""Ridgeline: attribution."""
