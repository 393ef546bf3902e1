"""Step 2: what makes the two sides differ besides the program. Each function returns `Caveat`s."""
