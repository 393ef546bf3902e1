"""What a set of profiles shows that no single profile does. One module per kind of insight (sweeps,
clusters, changes, outliers), which finds it and writes its text; they read the store by SQL alone.

`search.find_insights` runs them all. A store becomes `points` (one launch per kernel, shape and
file), those with the same kernel become `series`, and a series becomes a sweep.
"""
