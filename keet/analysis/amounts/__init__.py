"""How much work a launch does, and how much of it is needed: one module per kind of amount."""
