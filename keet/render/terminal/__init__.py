"""Views for a terminal: one module per command returns a view, which the command prints.

`layout` makes lines of it; `console` decides width and colour.
"""
