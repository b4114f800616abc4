"""Ridgeline: agent."""
