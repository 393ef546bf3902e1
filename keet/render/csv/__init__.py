"""Rows for a spreadsheet."""
