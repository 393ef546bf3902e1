"""What `keet top` prints: groups of launches, ranked by the time that the best fix would save."""
