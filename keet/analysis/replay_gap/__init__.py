"""Compares a launch's time under ncu's replay with its time in the program. Needs the run table."""
