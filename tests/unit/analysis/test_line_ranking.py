"""Lines with equal shares are ranked by samples, then by their place in the code."""

import random
from collections.abc import Callable, Sequence

import pytest

from keet.analysis.launch_view import LaunchView
from keet.analysis.source_lines import line_order
from keet.profile import Launch, Location, Profile


@pytest.fixture
def launch(profile_of: Callable[[str], Profile]) -> Launch:
    return profile_of("tour_full.ncu-rep").launches[0]


def expected(view: LaunchView, shares: dict[Location, float]) -> list[Location]:
    order = line_order(view.launch, view.table)
    return sorted(shares, key=lambda line: (-shares[line], order.index(line)))


@pytest.mark.parametrize("levels", [(0.5,), (0.5, 0.25), (0.5, 0.25, 0.125)])
def test_lines_of_equal_share_are_ranked_by_samples(
    launch: Launch, levels: Sequence[float]
) -> None:
    view = LaunchView(launch)
    lines = line_order(launch, view.table)
    chance = random.Random(len(levels))
    assert len(lines) > 3
    for _ in range(20):
        chosen = chance.sample(lines, chance.randint(2, len(lines)))
        shares = {line: chance.choice(levels) for line in chosen}
        assert [line for line, _ in view._ranked(shares)] == expected(view, shares)


def test_a_line_that_no_instruction_has_comes_last(launch: Launch) -> None:
    view = LaunchView(launch)
    sampled = line_order(launch, view.table)[0]
    nowhere = Location("elsewhere.cu", 1)
    assert view._ranked({nowhere: 0.5, sampled: 0.5}) == [(sampled, 0.5), (nowhere, 0.5)]


def test_the_line_order_is_computed_only_for_ties(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order in the code takes the lines of all instructions, which are thousands."""
    view = LaunchView(launch)
    weights = view._weights
    first, second = sorted((line for line in weights if line), key=lambda line: -weights[line])[:2]
    assert weights[first] > weights[second]
    monkeypatch.setattr(
        "keet.analysis.launch_view.line_order", lambda *_: pytest.fail("not needed")
    )
    assert [line for line, _ in view._ranked({second: 0.5, first: 0.5})] == [first, second]


def test_an_instruction_is_located_once(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    view = LaunchView(launch)
    assert view.sampled_places()
    monkeypatch.setattr(Launch, "locate", lambda *_: pytest.fail("known already"))
    assert view.sampled_places()
