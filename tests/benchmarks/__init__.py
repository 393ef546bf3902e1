"""Benchmarks, as ratios to reference programs that run right before and after: machines differ."""
