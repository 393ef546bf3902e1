"""Charts as SVG, written by hand. `markup` escapes, and has axes and labels."""
