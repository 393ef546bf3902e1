"""The agent: asks a model to explain launches and checks its answers against the evidence.

One module per step, one folder per concern (model, recorded, privacy, source, edits); imports
explanation, comparison and keet_tools, never corpus or render.
"""
