"""What a comparison of runs says besides: idle time, tables of other programs, what to do next."""

from __future__ import annotations

from dataclasses import replace

from compared import Kernel, check_cited, difference, made, sample
from tables import in_run, ran, row, table

from keet.comparison.compare import Difference
from keet.comparison.sentences import basis_text, span_text, unprofiled_text
from keet.profile import Profile
from keet.profile.run_table import Migrations
from tests.rows import each_row


def _spans(before: float | None, after: float | None, **fields: object) -> Difference:
    report = made(Kernel("k", 1e5))
    sides = [in_run(report, row("k", 10, 1e6), span_ns=ns, **fields) for ns in (before, after)]
    return difference(*sides)


@each_row(
    ("before", "after", "text"),
    [
        (6.12e6, 1e6, "From the first to the last kernel: 6.12 ms → 1 ms, 6.12x shorter."),
        (1e6, 6.12e6, "From the first to the last kernel: 1 ms → 6.12 ms, 6.12x longer."),
        (4e6, 4.1e6, "From the first to the last kernel: 4 ms → 4.10 ms."),
        (1.1e6, 1.2e6, None),  # busy for most of it
        (6.12e6, None, None),
    ],
)
def test_the_length_of_runs_with_much_idle_time_is_printed(
    before: float | None, after: float | None, text: str | None
) -> None:
    found = _spans(before, after)
    assert span_text(found) == text
    assert found.verdict.word == "unchanged"
    check_cited(found)


def test_two_gpus_are_idle_only_if_both_are() -> None:
    assert span_text(_spans(6e5, 6e5, gpus=2)) is None
    assert span_text(_spans(1e6, 1e6, gpus=2)) is not None


def test_a_table_of_another_program_is_refused(wording) -> None:
    strange = in_run(made(Kernel("a", 1e5)), row("x", 2, 4e5), path="/tmp/other.csv")
    found = difference(ran(("a", 5, 5e5)), strange)
    wording([(each.id, each.text) for each in found.forbidden])
    assert found.timing.speedup is None


def test_a_table_without_time_is_refused(wording) -> None:
    found = difference(ran(("a", 5, 5e5)), in_run(made(Kernel("a", 1e5)), row("a", 5, 0.0)))
    wording([each.text for each in found.forbidden])


def test_one_launch_is_printed_in_the_singular() -> None:
    found = difference(ran(("a", 1, 5e5)), ran(("a", 3, 5e5)))
    assert (basis_text(found) or "").endswith(": 1 launch before, 3 after.")


def test_managed_memory_makes_a_difference_of_a_third_inconclusive(wording) -> None:
    moved = Migrations(1, 1, 100)
    sides = [
        in_run(made(Kernel("k", 1e5)), row("k", 10, ns), migrations=moved) for ns in (1e6, 1.4e6)
    ]
    found = difference(*sides)
    assert found.timing.word == "inconclusive"
    wording([each.text for each in found.all_caveats if each.id == "migrations"])
    assert found.timing.doubt == 0.4


def _ran_as(name: str, launches: int, us: float) -> Profile:
    """A launch of a sample that took so long in the run, each time."""
    profile = sample(name, "slow")
    full = profile.launches[0].name.full
    kernel = row("k", launches, launches * us * 1000)._replace(name=full, full=full)
    known = profile.provenance._replace(sha256=f"{us}")
    return replace(profile, run=table(kernel), provenance=known)


def _named(found: Difference, reason: str) -> list[str]:
    return [each.text for each in found.all_caveats if each.id == reason]


def test_every_launch_whose_replay_differs_is_named(wording) -> None:
    report = made(Kernel("k", 5e3), Kernel("k", 6e3), Kernel("k", 7e3), Kernel("k", 8e3))
    sides = [in_run(report, row("k", 4, ns, shape=Kernel("k"))) for ns in (4e6, 2.6e4)]
    found = difference(*sides)
    wording(_named(found, "replay_differs"))


def test_a_short_launch_is_not_split_as_under_replay(wording) -> None:
    """2.30 us under replay and 1.20 us in the run: no gap, and no account of the time."""
    found = difference(_ran_as("ring_steps", 400, 1.2), _ran_as("ring_steps", 400, 0.6))
    (pair,) = found.pairs
    assert pair.timing.word == "faster"
    assert not {"account", "unit", "line"} & {each.kind for each in pair.attribution}
    assert _named(found, "replay_differs") == []
    texts = _named(found, "replay_not_scaled")
    assert len(texts) == 2
    wording(texts)


def test_the_next_step_has_no_share_if_the_replay_differs_from_the_run(wording) -> None:
    long, short = (_ran_as("matrix_flip", 10, us) for us in (3000.0, 1020.0))
    gapped, plain = difference(short, long), difference(long, short)
    wording(gapped.next.text)
    assert gapped.next.share is None
    assert plain.next.share
    assert f" saves {plain.next.share:.0f} of the GPU" in plain.next.text
    check_cited(plain)


def test_the_share_of_unprofiled_kernels_is_printed_with_the_next_step(wording) -> None:
    before = ran(("hot", 10, 9e6), ("small", 1, 1e6), profiled=["small"])
    found = difference(before, before)
    wording(unprofiled_text(found))
    less = ran(("hot", 10, 4e6), ("small", 1, 6e6), profiled=["small"])
    assert unprofiled_text(difference(less, less)) is None
    check_cited(found)
