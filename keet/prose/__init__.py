"""Texts with numbers by reference: a model names evidence, and keet prints the numbers.

`expressions` parses and computes, `reading` checks a text that uses them. Imports evidence and
catalog, never a part above.

A text contains references in braces: a name `{l2_hit_rate_pct}`, an expression
`{dram_bytes / (N * 4 B)}`, or a comparison `{l2_busy > 2 * dram_busy}`. keet looks the names up,
computes, and prints the result with its label. Outside braces, a text must not contain or compare
numbers.
"""
