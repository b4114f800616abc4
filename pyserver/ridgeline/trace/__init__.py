"""Ridgeline: trace."""
