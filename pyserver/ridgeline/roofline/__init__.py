"""Ridgeline: roofline."""
