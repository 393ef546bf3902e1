"""The tools of the agent: one typed, read-only function per module, with answers of limited size.

`registry` lists them. Imports keet up to `comparison`; never renders, writes or asks a model.
"""
