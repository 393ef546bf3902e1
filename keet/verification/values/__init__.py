"""Step 2: what the report, or keet's analysis of it, has under the names that texts use."""
