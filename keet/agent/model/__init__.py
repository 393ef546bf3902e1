"""Asking a model: one module per step between a request and its reply; knows nothing of reports."""
