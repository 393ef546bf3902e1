"""Text that ncu printed: CSV (raw and details pages), and the details page as text.

`details_page` has what these readers share, and reads the text.
"""
