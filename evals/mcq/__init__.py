"""Multiple-choice questions about real reports: the answers are computed from their numbers."""
