"""Markdown for pull requests, chats and prompts. `markup` escapes and makes tables."""
