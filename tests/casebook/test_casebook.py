"""The stored casebook: enough of everything, every cause really gone after its fix, every side readable."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

from keet.explanation.finding_notes import casebook
from keet.profile import Absent
from keet.report import read_profile
from keet.report.input.files import HeldBytes
from keet.report.input.zstd import unpacked
from kernels_samples.casebook.cases import Case, load_cases, profile_path
from kernels_samples.casebook.counts import KNOWN, counts
from kernels_samples.casebook.family import LOCKED, load_families
from kernels_samples.casebook.index import INDEX, diff_key, entry_of
from kernels_samples.casebook.runner import source_digest
from tests.rows import each_row

CASES = load_cases()
BY_ID = {case.id: case for case in CASES}
SAMPLE = random.Random(15).sample(CASES, 4)
"""Read in full: all of them would take longer than the rest of the suite."""

each_of_a_few = each_row("case", SAMPLE, ids=lambda case: case.id)


def test_there_is_enough_of_everything_and_the_counter_of_each_cause_moved() -> None:
    """The index has the values; the next test holds them to the profiles."""
    assert {count.what for count in counts(CASES) if not count.met} == set(KNOWN)
    for entry in casebook():
        moved, stated = entry.moved, BY_ID[entry.id].spec.moved
        assert moved.metric == stated.metric
        assert None not in (moved.before, moved.after), entry.id
        assert stated.holds(moved.before, moved.after), f"{entry.id} {stated}: {moved}"


def metrics_of(path: Path) -> list[dict[str, float]]:
    """The scalar metrics of each launch, without all that makes a profile of them."""
    with unpacked(HeldBytes(path.read_bytes())) as stream:
        document = json.loads(stream.read())
    columns = [launch["metrics"] for launch in document["launches"]]
    return [dict(zip(each["names"], each["values"], strict=True)) for each in columns]


def values_in(launches: list[dict[str, float]], metric: str) -> list[float]:
    """What the metric can be of a side: the sum over its launches, or that of one of them."""
    if " / " in metric:
        above, below = (values_in(launches, each) for each in metric.split(" / "))
        return [over / under for over, under in zip(above, below, strict=True)]
    values = [launch[metric] for launch in launches]
    return [sum(values)] if metric.endswith(".sum") else values


@each_row("family", sorted({entry.family for entry in casebook()})[::2], few=3)
def test_the_moved_counters_are_those_of_the_profiles(family: str) -> None:
    """Of one case: a family's profiles and its part of the index are renewed together."""
    entry = next(entry for entry in casebook() if entry.family == family)
    case, moved = BY_ID[entry.id], entry.moved
    for variant, told in ((case.spec.before, moved.before), (case.spec.after, moved.after)):
        found = values_in(metrics_of(case.profile_path(variant)), moved.metric)
        assert any(told == pytest.approx(value, rel=1e-5) for value in found), (case.id, found)


@each_of_a_few
@pytest.mark.slow
def test_the_index_says_what_the_files_say(case: Case) -> None:
    document = json.loads(gzip.decompress(INDEX.read_bytes()))
    found = [each for each in document["cases"] if each["id"] == case.id]
    told = [] if case.split == LOCKED else [json.loads(json.dumps(entry_of(case)))]
    assert told == [document["usual"] | entry for entry in found]


@pytest.mark.slow
def test_the_index_has_every_case_and_its_diff() -> None:
    entries = {entry.id: entry for entry in casebook()}
    shown = [case for case in CASES if case.split != LOCKED]
    assert list(entries) == [case.id for case in shown]
    for case in shown:
        entry = entries[case.id]
        assert entry.diff == case.diff
        assert entry.diff, f"{diff_key(case)}: the two sides have the same code"
        assert entry.lines == list(case.lines)
        assert (entry.before_us, entry.after_us) == (case.before.median_us, case.after.median_us)


@each_of_a_few
@pytest.mark.slow
def test_a_side_opens_like_any_report(case: Case) -> None:
    for variant in case.spec.variants:
        profile = read_profile(case.profile_path(variant))
        launch = case.launch(profile)
        assert launch.get("duration") is not None
        assert len(launch.metric_names()) > 2000
        assert not isinstance(launch.disassembly, Absent)
        assert launch.instances("inst_executed") is not None
        assert launch.rules
        assert any(path.endswith(case.family.source.name) for path in launch.source_files)
        assert case.family.source.read_text() in launch.source_files.values()
        own = [path for path, text in launch.source_files.items() if text is not None]
        assert all(f"/families/{case.family.name}/" in path for path in own)


def test_measurements_and_profiles_are_of_this_source_and_of_the_sides_of_cases() -> None:
    stale = {c.family.name for c in CASES if c.measured.source != source_digest(c.family.name)}
    assert not stale
    families = load_families()
    stated = {profile_path(each.folder, side) for each in families for side in each.sides}
    stored = {path for each in families for path in (each.folder / "profiles").glob("*")}
    assert stored
    assert stored <= stated


def test_the_dominant_cause_is_the_one_whose_fix_gains_most_alone() -> None:
    """Within 5 %: what the larger of two nearly equal gains is, noise would decide."""
    for case in CASES:
        if case.steps:
            alone = {step.finding: step.speedup for step in case.steps}
            assert alone[case.spec.finding] >= 0.95 * max(alone.values()), (case.id, alone)
