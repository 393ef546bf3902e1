"""Text as words and references: numbers are printed by keet from evidence, never written by hand.

A text holds references in braces: `{l2_hit_rate_pct}`, an expression `{dram_bytes / (N * 4 B)}`, or
a comparison `{l2_busy > 2 * dram_busy}`. keet looks the names up, computes, and prints the result
with its label. What is written outside braces must not contain numbers or compare numbers.
"""
