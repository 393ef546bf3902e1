"""Decisions that end in one of several findings: the modules of these findings share them."""
