"""keet's own files of a whole profile: snapshots (`.keet.json`) and named baselines of them."""
