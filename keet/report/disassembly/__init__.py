"""SASS text of launches: from the cache on disk, else from NVIDIA's reader in a child process.

Only `nvidia_reader_child` imports NVIDIA's `ncu_report`, and it imports nothing of keet.
"""
