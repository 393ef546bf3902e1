"""Words, selections and rows that several formats print. Imports no format, rich or pydantic."""
