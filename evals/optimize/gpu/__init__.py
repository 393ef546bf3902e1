"""The GPU part of `optimize`: a script and a harness that run on a GPU machine. Imports nothing of
keet."""
