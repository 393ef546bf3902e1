"""Replays index expressions of kernels for every thread, on the CPU."""
