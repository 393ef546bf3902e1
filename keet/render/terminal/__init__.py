"""Text for a terminal: one module per command. `layout` makes lines, `console` decides width and
colour."""
