"""Compare two sides of profiles: pair kernels, check comparability, time them, find causes.

One folder per step; each imports only the steps before it, in this order: `pairing`, `caveats`,
`timing`, `causes`. `compare` runs all steps and builds a `result`; `sentences` puts it into words.
"""
