"""Compare two sides of profiles: pair kernels, check comparability, time them, find causes.

In steps; each imports only the steps before it, in this order: `same_kernel` and `pairs` (which
launches of both sides belong together; neither times nor findings matter), `comparability` (what
makes the sides differ besides the program), `timing`, `causes`. `compare` runs all steps and builds
a `result`; `sentences` puts it into words.
"""
