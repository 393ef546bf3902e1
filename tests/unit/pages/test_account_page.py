"""The account of the time as users see it: on the first screen, and complete with --verbose."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from evals.public_reports import MANUALLY_READ
from keet.corpus.discovery import reports_in
from keet.explanation.analyst import explain
from keet.explanation.explain_document import explain_document
from keet.explanation.explanation_types import Explanation
from keet.explanation.launch_figures import figures_text
from keet.explanation.program import program_of
from keet.ingest import read_profile
from keet.pages.blocks import Bars, Format, Items, plain
from keet.pages.context import context_text
from keet.pages.launch import HEADING
from keet.pages.program import first_row
from keet.profile.launch_sequences import MAX_DECODED
from keet.verification.launch_values import LaunchValues
from keet.verification.named_values import ComputedValues
from keet.verification.verify import verify_text
from tests.conftest import CORPUS, needs_corpus
from tests.explain_pages import explain_blocks, explain_markdown, explain_terminal, texts_of
from tests.kept_reports import sample_report
from tests.page_blocks import explain_texts
from tests.rows import each_row

SAMPLES = Path("kernels_samples")
EVERY = sorted(path.parent.name for path in SAMPLES.glob("*/slow.ncu-rep*"))
SCREEN = 24


@cache
def explained(sample: str, *, sass: bool = False) -> Explanation:
    profile = read_profile(sample_report(sample))
    return explain(profile, profile.launches, 5, sass=sass)


def first_screen(explanation: Explanation) -> str:
    return "\n".join(explain_terminal(explanation).splitlines()[:SCREEN])


def told(text: str, screen: str) -> bool:
    """Whether all of it is there, however its lines are wrapped."""
    return " ".join(text.split()) in " ".join(screen.split())


def assert_advice_on_first_screen(explanation: Explanation) -> None:
    """The advice of the first finding of a launch or, in a program, of the kernel that could save
    most time. Where nothing was found, the headline says so and how much could be left."""
    program = program_of(explanation)
    screen = first_screen(explanation)
    if program is None:
        (each,) = explanation.launches
        assert told(each.verdict.headline, screen)
        advice = [finding.action for finding in each.findings[:1]]
    else:
        row = first_row(program)
        advice = [row.finding.action] if row and row.finding else []
        if not any(row.finding for row in program.rows):
            assert told(program.shown_launches[0].verdict.headline, screen)
    assert [text for text in advice if not told(text, screen)] == []


@each_row("sample", EVERY, few=5)
def test_the_advice_is_on_the_first_screen(sample: str) -> None:
    assert_advice_on_first_screen(explained(sample))


@needs_corpus
@pytest.mark.slow
def test_the_advice_of_public_reports_is_on_the_first_screen() -> None:
    paths = [path for folder in (CORPUS, MANUALLY_READ) for path in reports_in(folder)]
    for path in paths:
        profile = read_profile(path)
        explanation = explain(profile, profile.launches, 5, sass=False, most=MAX_DECODED)
        assert_advice_on_first_screen(explanation)


@each_row("form", ["terminal", "markdown"])
def test_what_to_change_comes_before_what_was_measured(form: Format) -> None:
    explanation = explained("matrix_flip", sass=True)
    (each,) = explanation.launches
    texts = texts_of(explain_blocks(explanation, form=form))
    order = (
        each.launch.kernel,
        each.verdict.headline,
        each.findings[0].title,
        each.findings[0].action,
        figures_text(each.view),
        HEADING,
        "How much work",
    )
    places = [next(n for n, text in enumerate(texts) if words in text) for words in order]
    assert places == sorted(places)


@each_row("width", [40, 80, 120, 200])
def test_rows_fit_any_terminal(width: int) -> None:
    _path, *lines = explain_terminal(
        explained("decay_ratios"), width
    ).splitlines()  # paths are not wrapped
    assert max(map(len, lines)) <= width


def test_verbose_prints_every_part_with_its_evidence() -> None:
    (each,) = explained("gas_state").launches
    blocks = explain_blocks(explained("gas_state"), verbose=True)
    items = [item for block in blocks if isinstance(block, Items) for item in block.items]
    shown = {plain(item.words): plain(item.label) for item in items}
    for part in each.account.all():
        ids = ", ".join(dict.fromkeys(piece.id for piece in part.sources))
        cited = f"{part.percent.id} from {ids}" if ids else part.percent.id
        assert shown[f"{part.part} [{cited}]"].startswith(f"{part.percent:.1f}")


def test_without_verbose_small_parts_are_summed() -> None:
    (account,) = (each for each in explain_blocks(explained("gas_state")) if isinstance(each, Bars))
    assert 3 <= len(account.bars) <= 7
    assert "other" in [bar.label for bar in account.bars]


def test_a_launch_without_measurements_has_no_account() -> None:
    explanation = explained("matrix_flip")
    (each,) = explanation.launches
    failed = replace(each, verdict=replace(each.verdict, not_judged=True))
    explanation = explanation._replace(launches=(failed,))
    assert not [block for block in explain_blocks(explanation) if isinstance(block, Bars)]
    assert "the time of this" not in context_text(explanation, 2000)


def test_each_finding_says_what_its_fix_gained() -> None:
    (launch,) = explain_document(explained("matrix_flip")).launches
    first = launch.findings[0]
    told = " ".join(explain_texts(explained("matrix_flip")))
    for text in (told, context_text(explained("matrix_flip"), 2000)):
        assert f"In {first.precedents.cases} measured cases" in text
        assert f"keet finding {first.nearest_case.id}" in text


@pytest.mark.parametrize("sample", ["matrix_flip", "gas_state", "sparse_apply"])
@pytest.mark.slow
def test_verify_confirms_what_is_printed(sample: str) -> None:
    explanation = explained(sample, sass=True)
    known = ComputedValues(LaunchValues(explanation.profile).sources)
    terminal = explain_terminal(explanation, 80)  # lines break inside of numbers' labels
    texts = {
        terminal: 0.1,
        explain_markdown(explanation): 0.08,
        context_text(explanation, 2000): 0.08,
    }
    for text, most in texts.items():
        checks = [
            check
            for each in verify_text(text, explanation.profile.launches, known=known)
            for check in each.checks
        ]
        assert len(checks) >= 15
        assert [c for c in checks if c.verdict == "contradicted"] == []
        doubts = [c.number.text for c in checks if c.verdict == "not_found"]
        assert len(doubts) <= most * len(checks), doubts
