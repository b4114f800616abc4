"""Ridgeline: runs."""
