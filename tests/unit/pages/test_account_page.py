"""The account of the time as users see it: on the first screen, and complete with --verbose."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from keet.explanation.analyst import explain
from keet.explanation.explain_document import explain_document
from keet.explanation.explanation_types import Explanation
from keet.ingest import read_profile
from keet.pages.blocks import Bars, Items, plain
from keet.pages.context import context_text
from keet.verification.launch_values import LaunchValues
from keet.verification.named_values import ComputedValues
from keet.verification.verify import verify_text
from tests.explain_pages import explain_blocks, explain_markdown, explain_terminal
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


@each_row("sample", EVERY, few=5)
def test_the_first_finding_is_on_the_first_screen(sample: str) -> None:
    """Headline, account and first finding with its text, on 80 columns. A report of several
    launches begins with a table, which has the first finding of each."""
    lines = explain_terminal(explained(sample)).splitlines()
    screen = "\n".join(lines[:SCREEN])
    if len(explained(sample).launches) > 1:
        assert " First finding " in screen
        return
    assert "\n  Where the time goes\n" in screen
    assert "\n  Units, share of peak:" in screen
    finding = next(iter(explained(sample).launches[0].findings), None)
    if finding is not None:
        assert f"\n1. {finding.title}" in screen
        assert finding.text.split()[0] in screen.partition("\n1. ")[2]
    assert max(map(len, lines)) <= 80


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
        ids = ", ".join(dict.fromkeys(piece.id for piece in part.evidence))
        cited = f"{part.share.id} from {ids}" if ids else part.share.id
        assert shown[f"{part.label} [{cited}]"].startswith(f"{part.share:.1f}")


def test_without_verbose_small_parts_are_summed() -> None:
    (account,) = (each for each in explain_blocks(explained("gas_state")) if isinstance(each, Bars))
    assert 3 <= len(account.bars) <= 7
    assert "other" in [bar.label for bar in account.bars]


def test_a_launch_without_measurements_has_no_account() -> None:
    explanation = explained("matrix_flip")
    (each,) = explanation.launches
    failed = each._replace(verdict=each.verdict._replace(not_judged=True))
    explanation = explanation._replace(launches=(failed,))
    assert not [block for block in explain_blocks(explanation) if isinstance(block, Bars)]
    assert "time of this launch goes" not in context_text(explanation, 2000)


def test_each_finding_says_what_its_fix_gained() -> None:
    (launch,) = explain_document(explained("matrix_flip")).launches
    first = launch.findings[0]
    assert first.precedents is not None
    assert first.nearest_case is not None
    told = " ".join(explain_texts(explained("matrix_flip")))
    for text in (told, context_text(explained("matrix_flip"), 2000)):
        assert f"In {first.precedents.cases} measured cases with this cause" in text
        assert f"keet finding {first.nearest_case.id}" in text


# --- keet does not contradict itself


@pytest.mark.parametrize("sample", ["matrix_flip", "gas_state", "sparse_apply"])
@pytest.mark.slow
def test_verify_confirms_what_is_printed(sample: str) -> None:
    explanation = explained(sample, sass=True)
    known = ComputedValues(LaunchValues(explanation.profile).sources)
    terminal = explain_terminal(explanation, 80)
    for text in (terminal, explain_markdown(explanation), context_text(explanation, 2000)):
        checks = [
            check
            for each in verify_text(text, explanation.profile.launches, known=known)
            for check in each.checks
        ]
        assert len(checks) >= 15
        assert [c for c in checks if c.verdict == "contradicted"] == []
        doubts = [c.number.text for c in checks if c.verdict == "not_found"]
        assert len(doubts) <= 0.08 * len(checks), doubts  # at 80 columns, lines break inside
