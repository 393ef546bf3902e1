"""Multiple-choice questions about real reports; keys come from metrics or planted causes, never
from keet."""
