"""Step 3: one module per kind of claim; each compares claims with values and returns verdicts."""
