"""Selects the advice for a finding: remedies of the catalog, chosen by facts about the launch.

One module per topic of facts; each function decorated with `fact` decides the fact of its name.
"""

from keet.analysis.advice.fact_tests import TESTS
from keet.analysis.advice.remedy_choice import FindingFacts, advice_for
from keet.analysis.findings import Advice, Because

__all__ = ["TESTS", "Advice", "Because", "FindingFacts", "advice_for"]
