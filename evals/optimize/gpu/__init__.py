"""The GPU part of `optimize`: a script and a harness for a GPU machine; imports nothing of keet."""
