"""The agent: asks a model to explain launches and checks its answers against the evidence.

One module per step, one folder per concern: `model` (asking) and `edits` (what it changes).
Imports explanation, comparison, pages and keet_tools, never corpus or cli.
"""
