"""Texts about a launch, and whether what they say is in the report."""
