"""Parts of the page of `keet explain`: evidence, rules, listings that launches share, sizes."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median

import pytest

from keet.documents.finding import Forecast
from keet.evidence import Evidence
from keet.explanation.analyst import explain, with_first
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.explanation.ncu_rules import second_opinion
from keet.explanation.program import program_of
from keet.formats.html.blocks import html_blocks, html_part
from keet.formats.html.evidence import draw_evidence, with_sources
from keet.ingest import read_profile
from keet.pages.anchors import Anchors
from keet.pages.capture import message_text, rules_blocks
from keet.pages.figures import EvidenceFigure
from keet.pages.listings import listing_owners, page_room, shared_room
from keet.pages.program import members_blocks
from keet.profile.rules import RuleKind, RuleResult, SpeedupEstimate, SpeedupScope
from keet.units import Quantity
from tests.explain_pages import explain_html, launch_html
from tests.kept_reports import sample_report
from tests.many_launches import repeated
from tests.page_parts import PageParts, broken_links

SAMPLES = Path("kernels_samples")
REPORTS = Path("tests/data/reports")


@cache
def explained(path: Path) -> Explanation:
    profile = read_profile(path)
    return explain(profile, profile.launches, 5)


@cache
def zoo_thrice() -> Explanation:
    """Eight kernels, each launched three times."""
    profile = repeated(read_profile(REPORTS / "zoo.ncu-repz"), 3)
    return explain(profile, profile.launches, 5)


def flip() -> Explanation:
    return explained(SAMPLES / "matrix_flip" / "slow.ncu-rep")


# --- evidence and rules


def test_evidence_includes_its_inputs() -> None:
    def piece(name: str, *sources: str) -> Evidence:
        return Evidence(name, name, 1, "", name, derived_from=sources or None)

    known = {each.id: each for each in (piece("a", "b", "c"), piece("b", "c", "a"), piece("c"))}
    rows = with_sources([known["a"], known["a"]], known)
    assert [each.id for each in rows] == ["a", "b", "c"]
    assert [each.id for each in with_sources([piece("d", "gone")], known)] == ["d"]


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("See @section:SpeedOfLight:Speed Of Light@.", "See Speed Of Light."),
        ("The @url:Guide:https://docs.nvidia.com/a#b@ tells.", "The Guide tells."),
        ("mail me@home: 5% @ 2 GHz", "mail me@home: 5% @ 2 GHz"),
    ],
)
def test_messages_of_rules_are_plain_text(message: str, text: str) -> None:
    assert message_text(message) == text


def rules_of(each: LaunchExplanation) -> str:
    return html_part(rules_blocks(each, Anchors()))


def test_every_rule_is_on_the_page_with_keets_assessment() -> None:
    (each,) = flip().launches
    page = PageParts(rules_of(each))
    for rule in each.launch.rules:
        assert " ".join(message_text(rule.message).split()) in page.text
    assert "ncu's estimate: saves 78% of the launch's time" in page.text
    assert "It agrees with finding 1." in page.text
    assert "estimates no gain" not in page.text
    assert "launch-0-finding-1" in page.targets


def test_a_rule_about_a_finding_that_is_not_listed_is_not_linked() -> None:
    (each,) = with_first(flip(), 0).launches
    assert not each.findings
    assert [finding.id for finding in each.unlisted] == ["uncoalesced_global"]
    page = PageParts(rules_of(each))
    assert "It agrees with finding 1." in page.text
    assert page.targets == []


def test_non_numeric_estimate_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    (each,) = flip().launches
    speedup = SpeedupEstimate(SpeedupScope.GLOBAL, float("nan"))
    rule = RuleResult("Rule", "R", "S", RuleKind.OPTIMIZATION, "", "text", speedup)
    monkeypatch.setattr(each.launch, "rules", (rule,), raising=False)
    text = PageParts(rules_of(each)).text
    assert "Rule" in text
    assert "nan" not in text


def test_local_estimate_is_not_printed_as_time(monkeypatch: pytest.MonkeyPatch) -> None:
    (each,) = flip().launches
    speedup = SpeedupEstimate(SpeedupScope.LOCAL, 93.0)
    rule = RuleResult("CPIStall", "Warp Stall", "S", RuleKind.OPTIMIZATION, "Long", "text", speedup)
    monkeypatch.setattr(each.launch, "rules", (rule,), raising=False)
    text = PageParts(rules_of(each)).text
    assert "local estimate: 93% (efficiency of the unit alone, not time)" in text
    assert "saves" not in text


def test_rule_has_the_same_name_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the sentence above the list and in the list."""
    (each,) = flip().launches
    speedup = SpeedupEstimate(SpeedupScope.GLOBAL, 60.0)
    rule = RuleResult("CPIStall", "Warp Stall", "S", RuleKind.OPTIMIZATION, "Long", "text", speedup)
    monkeypatch.setattr(each.launch, "rules", (rule,), raising=False)
    monkeypatch.setattr(each.launch, "leading_rule", rule, raising=False)
    opinion = second_opinion(each.view.ledger, each.findings, each.minor, 0.0)
    each = each._replace(second_opinion=opinion)
    text = PageParts(rules_of(each)).text
    assert text.count("CPIStall (Long)") == 2
    assert "Warp Stall" not in text


def test_numbers_that_are_not_in_the_report_name_their_source() -> None:
    pieces = [
        Evidence("dram_bytes#0", "dram__bytes.sum", 1, "byte", "bytes"),
        Evidence("executed#0", "inst_executed", 1, "inst", "executed"),
        Evidence("sm_count#0", "sm_count", 132, "", "SMs of the GPU"),
        Evidence("host_link_peak#0", "host_link.peak", 1, "byte/s", "peak of PCIe (assumed)"),
        Evidence("across_2_3_written#run", "across_2_3_written", 1, "byte", "written by #2"),
    ]
    page = PageParts(draw_evidence(EvidenceFigure(pieces, pieces, "e")) or "")
    rows = [page.text_of(f"e-{number}") for number in range(1, len(pieces) + 1)]
    assert rows[0].endswith("dram__bytes.sum")
    assert rows[1].endswith("inst_executed")
    assert rows[2].endswith("device attribute")
    assert rows[3].endswith("assumed by keet: not in the report")
    assert rows[4].endswith("computed by keet over several launches")


# --- smaller effects


def test_an_effect_that_looks_good_is_not_listed() -> None:
    (each,) = flip().launches
    assert [note.id for note in each.healthy] == ["warp_divergence"]
    gain = Forecast(1.0, 1.04, 1.2)
    denied = replace(each.findings[0], id="warp_divergence", text="paths differ", forecast=gain)
    nothing = replace(each.findings[0], id="tail_effect", text="a tail", forecast=Forecast(1, 1, 2))
    real = replace(each.findings[0], id="barrier_bound", text="waits 4 %", forecast=gain)
    changed = each._replace(minor=(denied, nothing, real))
    page = PageParts(launch_html(changed))
    assert "1 smaller effect (fixing it would gain less than 10%)" in page.text
    assert "waits 4 %" in page.text
    assert "paths differ" not in page.text
    assert "a tail" not in page.text


@pytest.mark.parametrize("name", ["matrix_flip", "column_physics", "row_norms", "gas_state"])
def test_no_effect_contradicts_the_list_of_what_looks_good(name: str) -> None:
    (each, *_) = explained(sample_report(name)).launches
    text = PageParts(launch_html(each)).text
    listed = text.partition("smaller effect")[2].partition("Looks good")[0]
    good = {note.id for note in each.healthy}
    assert not [m.text for m in each.minor if m.id in good and m.text in listed]
    assert not [m.text for m in each.minor if m.forecast.likely < 1.005 and m.text in listed]


# --- where


def test_a_cause_without_a_line_says_why() -> None:
    """The report has no numbers per instruction."""
    (each, *_) = explained(REPORTS / "tour_basic.ncu-rep").launches
    assert each.findings
    assert not each.findings[0].places
    page = PageParts(launch_html(each))
    where = page.text_of("launch-0").partition("Where ")[2].partition(" Why")[0]
    assert where == (
        "no source line (the report has no numbers for single instructions; see Source)"
    )


def test_a_cause_of_the_whole_launch_links_the_hottest_line() -> None:
    (each,) = flip().launches
    whole = each._replace(findings=(replace(each.findings[0], places=()),))
    page = PageParts(launch_html(whole))
    where = page.text_of("launch-0").partition("Where ")[2].partition(" Why")[0]
    assert where.startswith("no single source line; hottest line: slow.cu:")
    assert where.endswith("% of samples")


# --- ranges and graphs


@pytest.mark.parametrize("name", ["range.ncu-rep", "graph.ncu-repz"])
def test_ranges_and_graphs_are_called_that(name: str) -> None:
    kind = name.partition(".")[0]
    page = PageParts(explain_html(explained(REPORTS / name)))
    assert f"1 {kind} · " in page.text
    assert "1 launch" not in page.text
    assert f"Whole {kind}" in page.text
    assert "keet sees nothing whose fix would gain" not in page.text
    assert "profile them one by one: ncu --" in page.text
    assert "--section SourceCounters" not in page.text_of("launch-0-source")
    assert "smaller effect" not in page.text


# --- names and tables


def test_the_heading_is_the_file_and_the_folder_is_beside_it() -> None:
    page = PageParts(explain_html(flip()))
    assert "slow.ncu-rep in kernels_samples/matrix_flip/" in page.text


def test_the_index_has_the_words_of_the_headline() -> None:
    explanations = [flip(), explained(SAMPLES / "column_physics" / "slow.ncu-rep")]
    index = PageParts(explain_html(*explanations)).text_of("reports")
    for each in explanations:
        assert each.launches[0].verdict.headline.replace("`", "") in index


def test_launches_of_a_kernel_show_their_spread() -> None:
    program = program_of(zoo_thrice())
    assert program is not None
    group = max(program.groups, key=lambda group: len(group.members))
    fold = PageParts(html_blocks(members_blocks(group.first, program)))
    times = sorted(each.launch.rank_time for each in group.members)
    shortest, longest = (Quantity(each, "ns") for each in (times[0], times[-1]))
    middle = Quantity(median(times), "ns")
    assert f"shortest {shortest}, median {middle}, longest {longest}." in fold.text


# --- launches of the same kernel share a listing


def test_launches_of_one_shape_share_the_listing_of_one() -> None:
    explanation = zoo_thrice()
    program = program_of(explanation)
    assert program is not None
    groups = {each.launch.id: group for group in program.groups for each in group.members}
    owners = listing_owners(explanation.launches, groups)
    assert {n: owner.launch.id for n, owner in owners.items()} == {
        n: group.first.launch.id for n, group in groups.items()
    }
    last = program.groups[0].members[-1]
    alone = listing_owners([last], groups)
    assert {owner.launch.id for owner in alone.values()} == {last.launch.id}


def test_longer_launches_get_more_room_on_a_page() -> None:
    explanation = zoo_thrice()
    program = program_of(explanation)
    assert program is not None
    groups = {each.launch.id: group for group in program.groups for each in group.members}
    rooms = shared_room(listing_owners(explanation.launches, groups), groups, 1_000_000)
    assert abs(sum(rooms.values()) - 1_000_000) < len(rooms)
    by_time = [group.first.launch.id for group in program.groups if group.first.launch.id in rooms]
    assert list(dict.fromkeys(sorted(rooms, key=lambda n: -rooms[n]))) == by_time
    assert 1 <= len(rooms) < len(program.groups)


def test_launches_in_full_leave_less_room_for_listings() -> None:
    assert page_room(5, 5).size < 1_500_000
    assert page_room(150, 150).size < page_room(150, 3).size < 6_000_000
    assert page_room(10_000, 10_000).size > 0


def test_source_text_counts_on_pages_of_more_than_five_launches() -> None:
    assert not page_room(5, 5).counts_text
    assert page_room(6, 6).counts_text


def test_all_launches_are_on_the_page_and_links_lead_somewhere() -> None:
    explanation = zoo_thrice()
    page = PageParts(explain_html(explanation, everything=True))
    assert broken_links(page) == []
    assert {f"launch-{each.launch.id}" for each in explanation.launches} <= set(page.ids)
    program = program_of(explanation)
    assert program is not None
    first = program.groups[0].first.launch.id
    other = next(e.launch.id for e in program.groups[0].members if e.launch.id != first)
    assert f"The same code, with the samples of #{first} " in page.text_of(f"launch-{other}-source")


def test_less_important_launches_are_short_and_have_anchors() -> None:
    explanation = zoo_thrice()
    page = PageParts(explain_html(explanation))
    program = program_of(explanation)
    assert program is not None
    firsts = {group.first.launch.id for group in program.groups}
    assert {f"launch-{n}" for n in firsts} <= set(page.ids)
    shown = {*program.shown}
    for n in firsts - shown:
        assert f"launch-{n}-source" not in page.ids
        assert "All 3 launches of this kernel and shape" in page.text_of(f"launch-{n}")
    assert broken_links(page) == []


# --- incomplete reports


@pytest.mark.parametrize("name", ["graph.ncu-repz", "range.ncu-rep", "metrics_only.ncu-repz"])
def test_reports_without_a_finding(name: str) -> None:
    page = PageParts(explain_html(explained(REPORTS / name)))
    assert broken_links(page) == []
    assert "Findings None: " in page.text


def test_several_reports_keep_their_ids_apart() -> None:
    page = PageParts(explain_html(flip(), flip(), unread=["x: <img src=y>"]))
    assert broken_links(page) == []
    assert "x: <img src=y>" in page.text_of("reports")
    assert page.attributes("img") == []


# --- sizes


def test_a_page_of_a_sample_is_small() -> None:
    (each,) = flip().launches
    source = sum(len(text or "") for text in each.launch.source_files.values())
    assert len(explain_html(flip()).encode()) <= 1_500_000 + source


@pytest.mark.slow
@pytest.mark.parametrize("everything", [False, True])
def test_a_page_of_150_launches_is_at_most_6_mb(*, everything: bool) -> None:
    profile = repeated(read_profile(REPORTS / "zoo.ncu-repz"), 19)
    explanation = explain(profile, profile.launches, 5)
    page = explain_html(explanation, everything=everything)
    assert len(explanation.launches) >= 150
    assert len(page.encode()) <= 6_000_000
    assert broken_links(PageParts(page)) == []
