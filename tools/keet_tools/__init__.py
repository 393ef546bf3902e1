"""The tools of the agent: typed, read-only functions with answers of limited size.

`registry` lists them. Imports keet up to `formats`, whose Markdown is the text of an answer; never
writes or asks a model.
"""
