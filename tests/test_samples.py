"""The samples: their flaws are measured, visible in their reports and not named in the source."""

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from keet.analysis.coverage import find_coverage
from keet.findings import findings
from keet.profile import Launch, Profile
from keet.report import read_profile
from kernels_samples.casebook.counts import UNMEASURED
from kernels_samples.samples import HERE, Sample, load_samples, parse_condition
from kernels_samples.table import README, readme_text
from tests.kept_reports import unpacked
from tests.rows import each_row

SAMPLES = load_samples()
PAIRS = [(sample, variant) for sample in SAMPLES for variant in sample.variants]
SWEPT = [sample for sample in SAMPLES if sample.sweep]
HEALTHY = {"at_dram_roofline", "at_compute_roofline"}

each_sample = each_row("sample", SAMPLES, ids=lambda sample: sample.name)
each_variant = each_row(
    ("sample", "variant"), PAIRS, ids=lambda part: part if isinstance(part, str) else part.name
)


@cache
def profile_of(path: Path) -> Profile:
    return read_profile(path)


def launch_of(sample: Sample, variant: str, kernel: str | None = None) -> Launch:
    """The launch of the kernel that matters."""
    profile = profile_of(sample.report(variant))
    wanted = kernel or sample.kernel
    return next(launch for launch in profile.launches if launch.name.function == wanted)


def value_of(sample: Sample, variant: str, metric: str, kernel: str | None) -> float:
    found = launch_of(sample, variant, kernel).metric(metric)
    assert found is not None, f"{sample.name} {variant} has no {metric}"
    assert isinstance(found.value, float | int)
    return float(found.value)


def test_there_are_enough_of_each_kind_and_cause() -> None:
    kinds = Counter(kind for sample in SAMPLES for kind in sample.kinds)
    assert len(SAMPLES) >= 24
    least = {"healthy": 4, "layered": 4, "science": 4, "second_stage": 3, "hidden": 8, "long": 1}
    assert [kind for kind, count in least.items() if kinds[kind] < count] == []
    assert sum(sample.language == "triton" for sample in SAMPLES) >= 2
    assert len(SWEPT) >= 2
    assert {sample.truth.dominant for sample in SAMPLES} == set(findings()) - set(UNMEASURED)


@each_sample
def test_planted_causes_are_findings(sample: Sample) -> None:
    truth = sample.truth
    named = {truth.dominant, *truth.accept, *truth.others, *truth.left.values()}
    named |= {cause.finding for cause in truth.cause}
    assert named <= set(findings())
    assert (truth.dominant in HEALTHY) == sample.healthy
    if not sample.healthy:
        assert {truth.dominant, *truth.others} == {cause.finding for cause in truth.cause}
    assert truth.dominant not in (*truth.accept, *truth.others)
    assert not HEALTHY & set(truth.accept)
    # Layers are profiled step by step, and source lines exist.
    assert ("layered" in sample.kinds) == (len(sample.variants) > 2)
    assert sample.variants[0] == "slow"
    assert sample.variants[-1] == "fast"
    if len(sample.variants) > 2:
        assert truth.others
        assert set(truth.left) >= set(sample.variants[1:-1])
    for place in truth.places:
        lines = sample.file_of(place).read_text(encoding="utf-8").splitlines()
        assert lines[place.line - 1].strip() == place.code


TELLING = re.compile(
    r"\bslow|naive|\bfast\b|optimi[sz]|coalesc|conflict|padd(?:ed|ing)|spill|contention|divergent|"
    r"bottleneck|imbalance|occupan|latency|bandwidth|promot|roofline|vectori[sz]|inefficien|"
    r"tensor core|special function|throughput",
    re.IGNORECASE,
)
"""Words of a performance engineer, which the sources of a model's exercise must not hold."""


@each_variant
def test_sources_do_not_reveal_the_flaw(sample: Sample, variant: str) -> None:
    text = sample.source(variant).read_text(encoding="utf-8")
    assert not TELLING.findall(text)
    assert not TELLING.search(sample.name)


@each_sample
def test_fixes_give_the_same_result_faster_and_healthy_variants_are_equally_fast(sample) -> None:
    measured = sample.measured
    assert measured is not None
    assert set(measured.variants) == set(sample.variants)
    assert measured.launches >= 20
    assert len(measured.seeds) >= 3
    assert all(timing.worst_error_over_allowed <= 1 for timing in measured.variants.values())
    sums = [timing.checksum for timing in measured.variants.values()]
    assert max(sums) - min(sums) <= 1e-3 * max(map(abs, sums))
    (low, high), gain = measured.speedup_range, measured.speedup
    if sample.healthy:
        assert 1 / 1.05 <= gain <= 1.05
    else:
        assert 1.2 <= low <= gain * 1.001
        assert high >= gain * 0.999
        times = [measured.variants[name].median_us for name in sample.variants]
        assert times == sorted(times, reverse=True)
    if "second_stage" in sample.kinds:  # one step is left
        assert 0.4 <= 1 / gain <= 0.75


@pytest.mark.slow
@each_variant
def test_reports_have_what_keet_needs(sample: Sample, variant: str) -> None:
    profile = profile_of(sample.report(variant))
    gaps = {gap.id for gap in find_coverage(profile).gaps}
    assert gaps == (LEFT_OUT_BY_LIGHT if "--light" in sample.profile else set())
    source = sample.source(variant)
    if not gaps:
        files = launch_of(sample, variant).source_files.items()
        texts = [text for name, text in files if Path(name).name == source.name]
        assert texts == [source.read_text(encoding="utf-8")]


LEFT_OUT_BY_LIGHT = {"stall_samples", "source_text"}


def test_every_report_belongs_to_a_sample_and_all_together_are_small() -> None:
    kept = {sample.report(variant) for sample, variant in PAIRS}
    assert max(len(unpacked(path)) for path in kept) <= 700_000
    kept |= {s.sweep_report(value) for s in SWEPT if s.sweep for value in s.sweep.values}
    assert set(HERE.rglob("*.ncu-rep*")) == kept
    assert sum(path.stat().st_size for path in kept) <= 6_000_000


@each_sample
def test_the_flaw_is_visible_in_the_metrics(sample: Sample) -> None:
    """Direction and size of what the flaw moves."""
    assert sample.visible
    for seen in sample.visible:
        for variant, condition in seen.conditions.items():
            value = value_of(sample, variant, seen.metric, seen.kernel)
            assert condition.holds(value), f"{variant}: {seen.metric} is {value:g}, not {condition}"
        if seen.ratio:
            slow, fast = (value_of(sample, v, seen.metric, seen.kernel) for v in ("slow", "fast"))
            ratio = slow / fast if fast else float("inf")
            assert parse_condition(seen.ratio).holds(ratio), f"{seen.metric}: {slow:g}, {fast:g}"


@each_row("sample", SWEPT, ids=lambda sample: sample.name)
def test_a_sweep_is_one_kernel_over_a_knob(sample: Sample) -> None:
    assert sample.sweep is not None
    assert len(sample.sweep.values) >= 8
    shapes = set()
    for value in sample.sweep.values:
        (launch, *_) = profile_of(sample.sweep_report(value)).launches
        assert launch.name.function == sample.kernel
        shapes.add((launch.grid, launch.block, launch.get("registers_per_thread")))
    assert len(shapes) > 1


def test_the_table_is_up_to_date() -> None:
    assert README.read_text(encoding="utf-8") == readme_text()
