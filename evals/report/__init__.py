"""Prints scored runs: one module per task and form (tables, Markdown, JSON, plot), and the
comparison of two runs."""
