"""Writes the generated pages and pictures of docs/ (`make docs`). docs/conf.py is the site."""
