"""What a set of profiles shows that no single profile does. Sweeps, clusters, and outliers with
changes have a module each, which finds them and writes their text. They read the store by SQL.

`search.find_insights` runs them all. A store becomes `points` (one launch per kernel, shape and
file), those with the same kernel become `series`, and a series becomes a sweep.
"""
