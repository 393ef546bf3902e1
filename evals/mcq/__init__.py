"""Multiple-choice questions about real reports. Keys are computed from metrics or planted causes,
never from keet."""
