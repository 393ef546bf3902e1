"""Text that ncu printed: one module per form (raw CSV, details CSV, details text).

`details_page`, `numbers` and `rule_counts` are what these readers share.
"""
