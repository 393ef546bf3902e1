"""Profiling with ncu: one module per step of `keet profile`; `profile_program` runs them in order.

Imports `profile`, `report` and `catalog`; never analyses a report.
"""
