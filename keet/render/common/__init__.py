"""Texts, selections and rows that several formats print: one module per topic. Imports no format,
rich or pydantic."""
