"""Two sides of profiles held against each other: what changed, why, and whether one may say so."""
