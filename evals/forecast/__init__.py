"""Scores keet's forecasts against the measured speed-ups of the samples, beside NVIDIA's estimates;
samples only."""
