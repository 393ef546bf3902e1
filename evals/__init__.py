"""Measures how right keet is. One folder per task or eval; may import keet and kernels_samples;
keet never imports it."""
