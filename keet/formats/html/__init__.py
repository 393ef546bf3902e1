"""Pages to look at and share: one file each, no network, readable without JavaScript."""
