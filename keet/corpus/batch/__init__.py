"""Running `keet batch`: finds new files, analyses them in worker processes, adds rows to a store.
One module per step; nothing here prints.
"""
