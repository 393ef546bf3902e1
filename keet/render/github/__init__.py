"""Annotations for the lines of a pull request on GitHub."""
