"""Text for a terminal, laid out by `layout`. `console` decides width and colour."""
