"""Programs whose amounts of work are known exactly, and the truth that a profile is scored by."""
