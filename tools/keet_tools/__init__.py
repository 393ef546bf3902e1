"""What an agent may ask of a report: typed functions, one a file, read-only and bounded."""
