"""Asking a model: one module per step from request to reply, and replies from files.

Replies from files are transcripts, the cache and scripts. Of the agent, imports only `secrets`;
knows nothing of reports.
"""
