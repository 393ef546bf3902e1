"""The tools of the agent: typed, read-only functions with answers of limited size.

`registry` lists them. Imports keet up to `comparison`; never renders, writes or asks a model.
"""
