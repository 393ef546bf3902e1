"""Findings to sentences: what is said about a launch, a program and its run.

One module per part of an explanation; `analyst` makes it, `explanation_types` has its records.
Imports diagnosis and below, never a page or a format.
"""
