"""Decisions that end in one of several findings: each finding asks for its own outcome."""
