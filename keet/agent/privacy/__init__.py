"""What must not be sent or printed: names and source (redaction), API keys (secrets).

Of the agent, imports only `prompts`.
"""
