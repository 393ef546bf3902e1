"""Runs as tables, Markdown, JSON and a plot, and beside an earlier run."""
