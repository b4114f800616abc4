"""Ridgeline: findings."""
