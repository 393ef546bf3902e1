"""Does keet name the planted cause, and its line? NVIDIA's rules beside it."""
