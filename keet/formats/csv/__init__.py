"""CSV for spreadsheets: one module per command, one row per line of its result."""
