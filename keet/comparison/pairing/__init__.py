"""Step 1: which launches of both sides belong together. Never reads times or findings."""
