"""What a report contains, how ncu was called, and the command that captures what is missing."""
