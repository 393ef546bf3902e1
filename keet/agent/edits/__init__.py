"""A model's edits: one module per step from its text to a compiled patch.

Of the agent, imports only `prompts` (the source as lines) and `answer_schemas`.
"""
