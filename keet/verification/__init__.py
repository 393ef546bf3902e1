"""Texts by others checked against a report, number by number: `keet verify`."""
