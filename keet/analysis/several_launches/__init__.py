"""What several launches of a report show together; a single launch is the job of `diagnosis`."""
