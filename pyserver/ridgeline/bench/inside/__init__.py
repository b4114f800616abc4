"""Runs in the user's interpreter: makes arguments, launches kernels, takes times. Torch and the standard library only."""
