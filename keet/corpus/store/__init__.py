"""The store: Parquet files, written in parts and read through SQL views. One module per task
(schema, rows, writing, reading); no other folder imports duckdb, except to write one table.
"""
