"""The third step: times of pairs and of the total, their noise, and what they are times of."""
