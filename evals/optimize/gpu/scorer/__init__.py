"""The modules of score_candidates.py; they use relative imports and the standard library, because
the folder is copied to machines without keet."""
