"""Prints scored runs of `keet eval mcq`: tables, Markdown, JSON, and the comparison of two runs."""
