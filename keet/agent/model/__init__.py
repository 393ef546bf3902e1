"""Asking a model: one module per step from request to reply.

Of the agent, imports only `privacy`; knows nothing of reports.
"""
