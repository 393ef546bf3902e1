"""The version of keet, defined only here."""

__version__ = "0.1.0"
