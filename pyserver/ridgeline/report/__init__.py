"""Ridgeline: report."""
