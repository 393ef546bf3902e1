"""Masks secrets in texts of reports: recorded command lines and names of NVTX ranges.

`mask` is what others use; the rest is imported only for a text that may contain a secret. The agent
uses `shapes` for what it sends and prints. Imports nothing of keet.
"""
