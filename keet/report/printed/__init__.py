"""Text that ncu printed: one module per form (raw CSV, details CSV, details text).

`details_page` is what these readers share.
"""
