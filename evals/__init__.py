"""Measures how right keet is: one folder per task. Uses keet and kernels_samples; of keet, only
`keet eval` loads it, from a clone."""
