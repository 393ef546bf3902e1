"""Checks keet's number checks: one module per input (printed texts, mutants, known and model
sentences)."""
