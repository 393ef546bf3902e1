"""Integer values as polynomials of thread, block and loop indices. One kernel at a time."""
