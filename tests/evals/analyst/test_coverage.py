"""Whether the longest kernel gets an answer: two real reports, and sums of made-up ones."""

import pytest

from evals.analyst.__main__ import main, parse, sources_of
from evals.analyst.coverage import Answered, Unread, has_measurements, of_source, page_parts
from evals.analyst.first_answer import FirstAnswer
from evals.analyst.report_sets import (
    LOCKED,
    Source,
    casebook_sources,
    data_sources,
    kernels_by_time,
    profile_of,
    report_set,
    subjects,
)
from kernels_samples.casebook.family import load_split
from tests.conftest import REPORTS
from tests.rows import each_row


def report(name: str) -> Source:
    return Source("test data", name, REPORTS / name)


def made_up(kind: str, id_: str, *raised: str) -> Answered:
    answer = FirstAnswer(kind, id_, 2.0 if kind == "finding" else None)
    return Answered(
        "corpus", "a.ncu-rep", "kernel", "basic", answer, "A headline.", "unknown", raised
    )


def test_a_report_is_judged_by_its_longest_kernel(wording) -> None:
    row = of_source(report("tour_full.ncu-repz"))
    assert (row.kernel, row.kind, row.answer.kind) == ("transpose_rows", "full", "finding")
    assert row.answer.id in row.raised
    assert row.headline.endswith(".")
    readme = Source("test data", "README.md", REPORTS.parent / "README.md")
    row = of_source(readme)
    wording(row.why)
    assert subjects(readme) == []


def test_a_launch_without_counters_has_no_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    (subject, *_) = subjects(report("metrics_only.ncu-repz"))
    launch = subject.launch
    assert has_measurements(launch)
    configured = tuple(name for name in launch.metric_names() if name.startswith("launch__"))
    assert configured
    monkeypatch.setattr(launch, "metric_names", lambda: configured)
    assert not has_measurements(launch)


def test_the_page_counts_findings_and_ceilings_and_lists_the_rest(wording) -> None:
    rows = [
        *[made_up("finding", "tail_effect", "tail_effect", "small_grid")] * 8,
        made_up("ceiling", "at_dram_roofline")._replace(headline="At most 1.1x is left."),
        made_up("nothing", "nothing")._replace(limiter="L1", headline="At most 1.4x is left."),
        made_up("debug build", "debug build"),
        made_up("nothing", "nothing")._replace(report="silent.ncu-rep"),
        made_up("nothing", "nothing")._replace(limiter="latency", headline="At most 2x is left."),
        Unread("corpus", "notes.txt", "a reason"),
    ]
    parts = page_parts(rows)
    summary, sums = parts[:2]
    wording(summary.text)
    assert sums.rows[-1] == ("all", "13", "8", "1", "1", "1", "2")
    silent = parts[4]
    assert [row[0] for row in silent.rows[1:]] == ["silent.ncu-rep", "a.ncu-rep"]
    raised = parts[14]
    assert raised.rows[1:4] == [
        ("tail_effect", "8", "8"),
        ("at_dram_roofline", "1", "-"),
        ("small_grid", "0", "8"),
    ]
    assert ("warp_divergence", "0", "0") in raised.rows


def test_a_ceiling_that_does_not_say_what_is_left_is_no_answer() -> None:
    row = made_up("ceiling", "at_dram_roofline")
    assert not row._replace(headline="Healthy: DRAM at 90% of peak.").is_answered
    assert row._replace(headline="DRAM at 90% of peak: only fewer bytes help.").is_answered
    assert not made_up("nothing", "nothing")._replace(headline="At most 1.1x left").is_answered


def test_the_command_prints_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["coverage", "--only", "tour_lines.ncu-repz", "--processes", "1"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("# Coverage: ")
    assert "Printed by `python -m evals.analyst coverage --only tour_lines.ncu-repz --p" in page
    assert "1 of 1 readable reports" in page


@each_row(("name", "kind"), [
    ("tour_full.ncu-repz", "full"),
    ("tour_basic.ncu-repz", "basic"),
    ("tour_lines.ncu-repz", "other"),
    ("metrics_only.ncu-repz", "other"),
])  # fmt: skip
def test_sets_are_told_by_their_sections(name: str, kind: str) -> None:
    profile = profile_of(report(name))
    assert report_set(profile.launches[0]) == kind


def test_kernels_are_ranked_by_the_sum_of_their_times() -> None:
    profile = profile_of(report("nvtx.ncu-repz"))
    longest = kernels_by_time(profile.launches)
    sums = [
        sum(each.rank_time for each in profile.launches if each.kernel == launch.kernel)
        for launch in longest
    ]
    assert sums == sorted(sums, reverse=True)
    assert sum(sums) == pytest.approx(sum(each.rank_time for each in profile.launches))
    assert len({launch.kernel for launch in longest}) == len(longest)
    (first, *_), most = subjects(report("nvtx.ncu-repz")), subjects(report("nvtx.ncu-repz"), 1)
    assert [each.launch.id for each in most] == [first.launch.id] == [longest[0].id]
    assert len(first.beside) == len(profile.launches) - 1


def test_locked_families_are_read_for_closing_alone() -> None:
    work = [source.name.partition("/")[0] for source in casebook_sources(work=True)]
    assert {load_split()[family] for family in work} == {"work"}
    groups = {
        name: {source.group for source in sources_of(parse([name]))}
        for name in ("stability", "account", "coverage")
    }
    assert [name for name, found in groups.items() if LOCKED in found] == ["account"]
    assert {source.group for source in data_sources()} == {"test data"}
