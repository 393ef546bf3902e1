"""Scores whether keet names the planted cause of each sample and its line, beside NVIDIA's rules;
samples only."""
