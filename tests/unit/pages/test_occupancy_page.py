"""Curves of occupancy on pages, and what is said about them."""

from __future__ import annotations

import pytest

from keet.analysis.kernel import occupancy
from keet.explanation.analyst import explain
from keet.explanation.explanation_types import LaunchExplanation
from keet.ingest import read_profile
from keet.pages.blocks import Block, Part
from keet.pages.figures import OccupancyFigure
from keet.pages.occupancy import occupancy_blocks
from tests.kept_reports import sample_report
from tests.page_blocks import every_block, texts_of


def explained(sample: str) -> LaunchExplanation:
    profile = read_profile(sample_report(sample))
    return explain(profile, profile.launches, 5).launches[0]


def part(blocks: list[Block]) -> OccupancyFigure:
    (figure,) = [each for each in every_block(blocks) if isinstance(each, OccupancyFigure)]
    return figure


def test_steps_are_evidence_that_names_what_would_change(wording) -> None:
    each = explained("gas_state")
    blocks = [*occupancy_blocks(each)]
    figure = part(blocks)
    registers = figure.steps[0][0]
    assert [piece.value for piece in registers.evidence.values()] == [64, 48, 32]
    wording(texts_of(blocks))


def test_without_the_reports_own_limits_there_are_no_curves(
    monkeypatch: pytest.MonkeyPatch,
    wording,
) -> None:
    each = explained("gas_state")
    monkeypatch.setattr(occupancy, "_REGISTER_UNIT", 2**16)
    (text,) = occupancy_blocks(each)
    assert not isinstance(text, Part)
    wording(str(text.words))
