"""The registry: every finding is described, and its id is written in few places."""

import re
import subprocess
from collections import defaultdict
from pathlib import Path

from keet.analysis.remedy_conditions import FACTS
from keet.catalog import metrics
from keet.evidence import Sentence
from keet.findings import findings, otherwise

ROOT = Path(__file__).parents[3]
SPECS = list(findings().values())
SEARCHED = ("keet/*.py", "tools/*.py", "evals/*.py", "kernels_samples/*.py", "docs/*.md")
NOT_COUNTED = (
    # The modules, whose `unlike` names similar findings; what is generated; history.
    *("keet/findings/", "docs/findings", "docs/commands", "docs/modules", "docs/parameters.md"),
    "docs/decisions/",
    # Examples in docstrings, help texts, descriptions of columns and docs; printed output.
    *("keet/api/", "keet/cli/", "keet/corpus/store/", "docs/glossary.md", "docs/store.md"),
    *("docs/getting_started.md", "docs/python.md"),
    "docs/analyst.md",  # a part of the time that has the finding's name
)
PLACES = {
    "evals/diagnosis/adversaries.py": "always answers the most frequent finding",
    "evals/sass/scores.py": "scores the analysis behind this one finding",
    "keet/analysis/account.py": "a part of the time that has the finding's name",
    "keet/explanation/launch_amounts.py": "an excess takes the time that the finding about it would save",
    "keet/diagnosis/diagnosis.py": "what a launch without a cause ends in",
    "keet/explanation/analyst.py": "the note on full warps; the duration in the run beside ncu's",
    "keet/explanation/headline.py": "the sentence about a roofline, and about SMs without blocks",
    "keet/explanation/known_facts.py": "spills are many where the finding about them is raised",
    "keet/explanation/memory_chart.py": "waste of a link is what the finding says is read again",
    "keet/pages/launch.py": "the note on bytes moved says the same as this finding",
}
"""Places that are about single findings, and why."""


def test_findings_facts_and_remedies_are_described() -> None:
    for spec in SPECS:
        assert spec.label[0].islower() or spec.label[:2].isupper(), spec.id
        assert all(text.endswith(".") for text in (spec.meaning, spec.how, *spec.unlike.values()))
        assert set(spec.unlike) <= findings().keys() - {spec.id}, spec.id
        assert spec.unlike, spec.id
    assert len({spec.edit.text for spec in SPECS}) == len(SPECS)
    for condition, text in (remedy for spec in SPECS for remedy in spec.remedies.items()):
        assert re.fullmatch(r"[A-Z].*[.]", text)
        Sentence(text, here="", library="")  # raises where a number or another value is in it
        assert len(text) <= 300
        if "{library}" in text:
            assert any(fact.id.startswith("library") for fact in condition.needs)
    conditions = [condition for spec in SPECS for condition in spec.remedies]
    excluding = {fact for condition in conditions for fact in condition.excludes}
    assert {fact for c in conditions for fact in c.needs} | excluding == set(FACTS.values())
    assert {fact for fact in FACTS.values() if fact.negated} == excluding
    assert {metric for fact in FACTS.values() for metric in fact.metrics} <= set(metrics())
    for fact in FACTS.values():
        Sentence(fact.words, library="")
        Sentence(fact.negated)


def test_every_remedy_can_be_chosen() -> None:
    """An earlier one that needs less and excludes nothing more would always be chosen before."""
    for spec in SPECS:
        conditions = list(spec.remedies)
        assert conditions[-1] == otherwise
        assert len({condition.name for condition in conditions}) == len(conditions) >= 2
        for index, later in enumerate(conditions):
            assert bool(later.needs) is (later is not conditions[-1])
            assert not set(later.needs) & set(later.excludes)
            for earlier in conditions[:index]:
                hides = set(earlier.needs) <= set(later.needs)
                assert not (hides and set(earlier.excludes) <= set(later.excludes)), later.name


def test_an_id_is_written_in_few_places() -> None:
    tracked = subprocess.run(
        ["git", "ls-files", *SEARCHED], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    # An import is no list: it fails if the finding is gone.
    ids = re.compile(rf"(?<!keet\.findings\.)\b({'|'.join(findings())})\b")
    places = defaultdict(set)
    for path in tracked:
        if not path.startswith(NOT_COUNTED):
            for finding in ids.findall((ROOT / path).read_text(encoding="utf-8")):
                places[finding].add(path)
    assert {id_: found for id_, found in places.items() if len(found) > 3} == {}
    assert set().union(*places.values()) == set(PLACES), "give a reason, or remove the row"
