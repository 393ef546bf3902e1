"""Many profiles as tables. For now: one table as a Parquet file."""
