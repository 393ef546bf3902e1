"""How right keet is, with numbers, intervals and the command that reproduces them."""
