"""From a `Profile` to what it says: pure functions, no files, no printing."""
