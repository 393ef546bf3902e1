"""What must not be sent or printed: names, source text, keys. Imports only `prompts`."""
