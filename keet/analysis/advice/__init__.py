"""Selects the advice for a finding: remedies of the catalog, chosen by facts about the launch.

One module of facts per topic (`*_facts`, `kernel_origin`): each function decorated with `fact` is a
yes/no test for the fact of its name. `remedy_choice` asks them.
"""

from keet.analysis.advice.fact_tests import TESTS
from keet.analysis.advice.remedy_choice import FindingFacts, advice_for
from keet.analysis.findings import Advice, Because

__all__ = ["TESTS", "Advice", "Because", "FindingFacts", "advice_for"]
