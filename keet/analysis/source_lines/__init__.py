"""Costs by source line: which lines a launch's time and a finding's effect belong to."""
