"""Ridgeline: lsp."""
