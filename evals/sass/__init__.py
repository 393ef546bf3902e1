"""Scores keet's machine-code analysis against labels, exact byte counts and test programs."""
