"""Advice that fits: remedies of the catalog, selected by facts that the report shows."""

from keet.analysis.advice.fact_tests import TESTS
from keet.analysis.advice.remedy_choice import FindingFacts, advice_for
from keet.analysis.findings import Advice, Because

__all__ = ["TESTS", "Advice", "Because", "FindingFacts", "advice_for"]
