"""Builds the documentation site from the repository's Markdown; pages open from a folder.

`make site` runs `python -m docs_site`. Why there is an own generator: docs/decisions/0021-site.md.
"""
