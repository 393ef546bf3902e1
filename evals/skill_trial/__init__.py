"""Does a coding agent that has keet and its skill make kernels faster than one that has neither?"""
