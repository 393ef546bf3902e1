"""The parts of score_candidates.py. They import each other by relative names, so that the folder
can be carried to a machine that has no keet."""
