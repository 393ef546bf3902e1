"""Step 3: times of pairs and of the total, their noise, and what they are times of."""
