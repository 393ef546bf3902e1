"""Does an explanation make code faster? A model rewrites each sample, a GPU measures it."""
