"""Findings to sentences: what is said about a launch, a program and its run.

One module per part of an explanation; `analyst` makes it, `explanation_types` has its records.
Imports analysis and below, never a format.
"""
