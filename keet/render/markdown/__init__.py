"""Markdown output: one module per command. `markup` escapes text and makes tables."""
