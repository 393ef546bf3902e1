"""Is the analyst stable, closed and never silent? `python -m evals.analyst --help`."""
