"""The documentation site: Markdown of the repository as pages that open from a folder.

`make site` runs `python -m docs_site`. Why not a ready-made generator: docs/decisions/0021-site.md.
"""
