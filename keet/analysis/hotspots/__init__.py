"""Which lines and instructions of a launch cost what, and what is known about them."""
