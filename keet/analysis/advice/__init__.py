"""Advice that fits: remedies of the catalog, selected by facts that the report shows."""

from keet.analysis.advice.choosing import Facts, advice_for
from keet.analysis.advice.fact import TESTS
from keet.analysis.findings import Advice, Because

__all__ = ["TESTS", "Advice", "Because", "Facts", "advice_for"]
