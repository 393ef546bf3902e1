"""Measures how right keet is: one folder per task or eval, imports keet and kernels_samples, and
keet never imports it."""
