"""One module per question about a kernel's code. Pure functions over a `SassProgram`."""
