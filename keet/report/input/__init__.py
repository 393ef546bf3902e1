"""Bytes that the user names: files, standard input, zstd. Knows no format of a report."""
