"""`keet eval optimize`: does what a model is told of a profile help it to optimize, over rounds?"""
