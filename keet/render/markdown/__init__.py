"""Markdown for pull requests, chats and prompts: one module per command. `markup` escapes and makes
tables."""
