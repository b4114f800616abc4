"""Ridgeline: findings/rules."""
