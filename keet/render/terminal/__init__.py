"""Text for a terminal, made with rich. `console` decides width and colour."""
