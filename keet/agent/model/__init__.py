"""Asking a model: one module per step from request to reply, and replies from files.

Replies from files are transcripts, the cache and scripts. Imports nothing else of the agent;
knows nothing of reports.
"""
