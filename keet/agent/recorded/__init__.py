"""Replies from files: one module per kind (transcript, replay, cache, script).

Of the agent, imports only `model` and `privacy`.
"""
