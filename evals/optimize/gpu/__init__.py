"""The GPU half of `optimize`: a script and a harness that are carried to a GPU machine."""
