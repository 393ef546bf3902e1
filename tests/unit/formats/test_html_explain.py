"""Parts of the page of `keet explain`: evidence, rules, listings that launches share, sizes; and its
numbers, which match the JSON documents and the analysis."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from keet.analysis.hotspots.source_lines import source_lines
from keet.analysis.roofline.launch_roofline import find_roofline
from keet.documents.explain import ExplainDocument
from keet.documents.finding import Forecast
from keet.evidence import Evidence
from keet.explanation.analyst import explain, explain_document, with_first
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.explanation.ncu_rules import second_opinion
from keet.explanation.program import program_of
from keet.formats.html.blocks import reader
from keet.formats.html.markup import draw_evidence, with_sources
from keet.formats.html.roofline import draw_roofline
from keet.formatting import first_sentence, times_text
from keet.pages.blocks import (
    Anchors,
    Block,
    Cell,
    Code,
    Command,
    EvidenceFigure,
    Fold,
    Heading,
    Items,
    Part,
    RooflineFigure,
    plain,
)
from keet.pages.capture import (
    capture_part,
    clock_warning,
    facts_blocks,
    message_text,
    range_text,
    rules_blocks,
)
from keet.pages.explain import _not_checked
from keet.pages.launch import Shown, launch_section
from keet.pages.listings import listing_owners, page_room, shared_room
from keet.pages.program import members_blocks
from keet.profile import KernelRun, Launch, Profile, RunTable
from keet.profile.metric import RuleKind, RuleResult, SpeedupEstimate, SpeedupScope
from keet.profile.run_table import ProfiledLaunch
from keet.report import read_profile
from keet.units import Quantity
from tests.explain_pages import explain_html
from tests.explained_reports import explained
from tests.kept_reports import sample_report
from tests.many_launches import repeated
from tests.page_blocks import (
    every_block,
    explain_html_page,
    facts_of,
    links_of,
    part_of,
    table_of,
    texts_of,
)
from tests.page_parts import (
    PageParts,
    broken_links,
    links_in,
    page_tree,
    table_rows,
    value_of,
    with_class,
    with_id,
    words,
)
from tests.rows import each_row

REPORTS = Path("tests/data/reports")
FLIP = sample_report("matrix_flip")
PHYSICS = sample_report("column_physics")
DECAY = sample_report("decay_ratios")
TOUR = REPORTS / "tour_full.ncu-repz"
ZOO = REPORTS / "zoo.ncu-repz"


@cache
def zoo_thrice() -> Explanation:
    """Eight kernels, each launched three times."""
    profile = repeated(read_profile(ZOO), 3)
    return explain(profile, profile.launches, 5)


@cache
def document(path: Path) -> ExplainDocument:
    return explain_document(explained(path))


@cache
def page_of(path: Path) -> ET.Element:
    return page_tree(explain_html(explained(path), everything=True))


def flip() -> Explanation:
    return explained(FLIP)


def section_of(each: LaunchExplanation) -> list[Block]:
    return [*launch_section(Shown(each, None, reader()))]


def test_evidence_includes_its_inputs_and_names_its_source() -> None:
    def piece(name: str, *sources: str) -> Evidence:
        return Evidence(name, name, 1, "", name, derived_from=sources or None)

    known = {each.id: each for each in (piece("a", "b", "c"), piece("b", "c", "a"), piece("c"))}
    rows = with_sources([known["a"], known["a"]], known)
    assert [each.id for each in rows] == ["a", "b", "c"]
    assert [each.id for each in with_sources([piece("d", "gone")], known)] == ["d"]
    sources = {
        Evidence("dram_bytes#0", "dram__bytes.sum", 1, "byte", ""): "dram__bytes.sum",
        Evidence("executed#0", "inst_executed", 1, "inst", ""): "inst_executed",
        Evidence("sm_count#0", "sm_count", 132, "", ""): "device attribute",
        Evidence("peak#0", "host_link.peak", 1, "", "(assumed)"): "assumed by keet: not in the report",
        Evidence("a#run", "a", 1, "byte", ""): "computed by keet over several launches",
    }  # fmt: skip
    page = PageParts(draw_evidence(EvidenceFigure([*sources], sources, "e")) or "")
    for number, source in enumerate(sources.values(), 1):
        assert page.text_of(f"e-{number}").endswith(source)


@each_row(
    ("message", "text"),
    [
        ("See @section:SpeedOfLight:Speed Of Light@.", "See Speed Of Light."),
        ("The @url:Guide:https://docs.nvidia.com/a#b@ tells.", "The Guide tells."),
        ("mail me@home: 5% @ 2 GHz", "mail me@home: 5% @ 2 GHz"),
    ],
)
def test_messages_of_rules_are_plain_text(message: str, text: str) -> None:
    assert message_text(message) == text


def test_every_rule_is_on_the_page_with_keets_assessment(wording) -> None:
    """It links to the finding, unless that is not listed."""
    (each,) = flip().launches
    (unlisted,) = with_first(flip(), 0).launches
    assert [finding.id for finding in unlisted.unlisted] == ["uncoalesced_global"]
    for one, links in ((each, {"launch-0-finding-1"}), (unlisted, set())):
        blocks = [*rules_blocks(one, Anchors())]
        told = texts_of(blocks)
        for rule in each.launch.rules:
            assert any(text.endswith(message_text(rule.message)) for text in told)
        lists = [block.items for block in every_block(blocks) if isinstance(block, Items)]
        assert {to for items in lists for item in items for to in links_of(item.words)} == links
        wording([text for text in told if "finding" in text], case=len(links))


@each_row(
    ("scope", "percent", "estimate"),
    [
        (SpeedupScope.GLOBAL, 60.0, " ncu's estimate: saves 60% of the launch's time"),
        (SpeedupScope.GLOBAL, float("nan"), ""),
        (SpeedupScope.LOCAL, 93.0, " ncu's local estimate: 93% (efficiency of the unit alone, not time)"),
    ],
)  # fmt: skip
def test_estimates_of_rules(scope: SpeedupScope, percent: float, estimate: str) -> None:
    """A rule has the same name in the sentence above the list and in the list."""
    (each,) = flip().launches
    speedup = SpeedupEstimate(scope, percent)
    rule = RuleResult("CPIStall", "Warp Stall", "S", RuleKind.OPTIMIZATION, "Long", "text", speedup)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(each.launch, "rules", (rule,), raising=False)
        patch.setattr(each.launch, "leading_rule", rule, raising=False)
        opinion = second_opinion(each.view.ledger, each.findings, each.lesser, 0.0)
        told = texts_of(rules_blocks(replace(each, second_opinion=opinion), Anchors()))
    assert f"CPIStall (Long){estimate}" in told
    assert " ".join(told).count("CPIStall (Long)") == (2 if scope is SpeedupScope.GLOBAL else 1)
    assert "Warp Stall" not in " ".join(told)


def smaller_of(each: LaunchExplanation) -> list[str]:
    """The effects that are listed behind a summary that counts them."""
    for block in every_block(section_of(each)):
        if isinstance(block, Fold) and " smaller effect" in (summary := plain(block.summary)):
            shown = texts_of(block.blocks)
            assert summary.startswith(f"{len(shown)} ")
            return shown
    return []


def test_an_effect_that_looks_good_or_gains_nothing_is_not_listed() -> None:
    (each,) = flip().launches
    assert [note.id for note in each.healthy] == ["warp_divergence"]
    gain, first = Forecast(1.0, 1.04, 1.2), each.findings[0]
    denied = replace(first, id="warp_divergence", text="paths differ", forecast=gain)
    nothing = replace(first, id="tail_effect", text="a tail", forecast=Forecast(1, 1, 2))
    real = replace(first, id="barrier_bound", text="waits 4 %", forecast=gain)
    changed = replace(each, lesser=(denied, nothing, real))
    assert smaller_of(changed) == [f"{real.title}: waits 4 %"]


def test_a_cause_without_a_line(wording) -> None:
    """The report has no numbers per instruction."""
    (each, *_) = explained(REPORTS / "tour_basic.ncu-repz").launches
    assert not each.findings[0].locations
    where = facts_of(section_of(each))["Where"]
    wording(where)
    (each,) = flip().launches
    whole = replace(each, findings=(replace(each.findings[0], locations=()),))
    where = facts_of(section_of(whole))["Where"]
    wording(where)


@each_row("name", ["range.ncu-rep", "graph.ncu-repz", "metrics_only.ncu-repz"])
def test_reports_without_a_finding(name: str, wording) -> None:
    """Ranges and graphs are called that, and nothing is asked for that ncu can't collect there."""
    explanation = explained(REPORTS / name)
    assert broken_links(PageParts(explain_html(explanation))) == []
    page, kind = explain_html_page(explanation), name.partition(".")[0]
    texts = texts_of(page.blocks)
    none = [text for text in texts if text.startswith("None: ")]
    assert none
    if kind != "metrics_only":
        told = texts_of([capture_of(explanation)])
        (samples,) = [text for text in told if text.startswith("warp samples: ")]
        assert "not collected" not in samples
        code = [text for text in told if text.startswith("machine code: ")]
        wording(none[0], code, case=kind)
        assert [text for text in texts if f"1 {kind} · " in text]
        assert not [text for text in texts if "1 launch" in text or "smaller effect" in text]
        source = part_of(page, "launch-0-source")
        assert "--section SourceCounters" not in " ".join(texts_of([source]))


def test_the_heading_is_the_file_and_the_folder_is_beside_it() -> None:
    heading = next(
        b for b in every_block(explain_html_page(flip()).blocks) if isinstance(b, Heading)
    )
    assert plain(heading.words) == "slow.ncu-rep in kernels_samples/matrix_flip/"


def test_what_launches_of_a_kernel_do_not_have_in_common_are_ranges() -> None:
    found = zoo_thrice()
    program = program_of(found)
    group = max(program.groups, key=lambda group: len(group.members))
    times = sorted(each.launch.rank_time for each in group.members)
    low, middle, high = (Quantity(n, "ns") for n in (times[0], median(times), times[-1]))
    told = " ".join(texts_of(members_blocks(group.first, program)))
    assert f"shortest {low}, median {middle}, longest {high}." in told
    facts = facts_of([capture_part(found, found.launches, Anchors())])
    for name, metric in (("SM clock", "sm_frequency"), ("DRAM clock", "dram_frequency")):
        clocks = [clock for launch in found.profile.launches if (clock := launch.get(metric))]
        low, *_, high = sorted(clocks, key=lambda clock: clock.value)
        assert str(low) != str(high)
        assert facts[name].startswith(f"{low} to {high}")


def test_room_for_listings() -> None:
    """Longer launches get more room on a page."""
    explanation = zoo_thrice()
    program = program_of(explanation)
    groups = {each.launch.id: group for group in program.groups for each in group.members}
    owners = listing_owners(explanation.launches, groups)
    assert {n: owner.launch.id for n, owner in owners.items()} == {
        n: group.first.launch.id for n, group in groups.items()
    }
    last = program.groups[0].members[-1]
    alone = listing_owners([last], groups)
    assert {owner.launch.id for owner in alone.values()} == {last.launch.id}

    rooms = shared_room(owners, groups, 1_000_000)
    assert abs(sum(rooms.values()) - 1_000_000) < len(rooms)
    by_time = [group.first.launch.id for group in program.groups if group.first.launch.id in rooms]
    assert list(dict.fromkeys(sorted(rooms, key=lambda n: -rooms[n]))) == by_time
    assert 1 <= len(rooms) < len(program.groups)
    # Source text counts on pages of more than five launches.
    assert page_room(5, 5).size < 1_500_000
    assert page_room(150, 150).size < page_room(150, 3).size < 6_000_000
    assert page_room(10_000, 10_000).size > 0
    assert [page_room(n, n).counts_text for n in (5, 6)] == [False, True]


def test_less_important_launches_are_short_and_have_anchors() -> None:
    explanation = zoo_thrice()
    assert broken_links(PageParts(explain_html(explanation))) == []
    page, program = explain_html_page(explanation), program_of(explanation)
    firsts = {group.first.launch.id for group in program.groups}
    assert firsts - {*program.shown}
    for n in firsts - {*program.shown}:
        brief = part_of(page, f"launch-{n}")
        assert [text for text in texts_of([brief]) if text.startswith("All 3 launches")]
        parts = {block.anchor for block in every_block([brief]) if isinstance(block, Part)}
        assert f"launch-{n}-source" not in parts


@pytest.mark.slow
def test_a_page_with_all_of_150_launches_is_at_most_6_mb(wording) -> None:
    profile = repeated(read_profile(ZOO), 19)
    explanation = explain(profile, profile.launches, 5)
    html = explain_html(explanation, everything=True)
    assert len(explanation.launches) >= 150
    assert len(html.encode()) <= 6_000_000
    page = PageParts(html)
    assert broken_links(page) == []
    assert {f"launch-{each.launch.id}" for each in explanation.launches} <= {*page.ids}
    group = program_of(explanation).groups[0]
    other = next(n for each in group.members if (n := each.launch.id) != group.first.launch.id)
    wording(page.text_of(f"launch-{other}-source"))


ProfileOf = Callable[[str], Profile]


def capture_of(explanation: Explanation) -> Part:
    lacking = [*_not_checked(explanation, reader())]
    return capture_part(explanation, explanation.launches, Anchors(), lacking)


def captured(profile: Profile, **origin: Any) -> dict[str, str]:
    profile = replace(profile, provenance=profile.provenance._replace(**origin))
    return facts_of([capture_of(explain(profile, profile.launches, 1, sass=False))])


def test_the_page_says_how_the_report_was_captured(profile_of: ProfileOf) -> None:
    facts = captured(read_profile(FLIP))
    wanted = {"CUDA": "13.0", "Captured": "2026-11-15 08:50 UTC", "Replay passes": "24"}
    assert wanted.items() <= facts.items()
    assert "SourceCounters" in facts["Sections"].split(", ")
    bare = profile_of("metrics_only.ncu-repz")
    lacking = [*every_block([capture_of(explain(bare, bare.launches, 5))])]
    assert any(isinstance(each, Command) and each.command.startswith("ncu --") for each in lacking)


DEFAULT = "ncu -o x ./app"


@each_row(
    ("command", "version", "name", "setting"),
    [
        (DEFAULT, "2025.4.1.0", "Clock control", "base (ncu's default; ncu asks for the base clock; "),
        (DEFAULT, "2026.1.0.0", "Clock control", "boost (ncu's default; ncu asks for the boost clock, or"),
        (DEFAULT, "2027.1.0.0", "Clock control", "boost (ncu's default; "),
        (DEFAULT, None, "Clock control", None),
        (DEFAULT, None, "Cache control", "all (ncu's default; "),
        ("ncu --clock-control=force-boost ./app", "2026.1", "Clock control", "force-boost (ncu asks "),
        ("ncu --cache-control none ./app", "2026.1", "Cache control", "none (caches as they were left)"),
        ("ncu --nvtx ./app --clock-control none", "2025.3.1.0", "Clock control", "base (ncu's default; "),
        ("ncu --nvtx ./app --replay-mode range", "2025.3.1.0", "Replay mode", "kernel (ncu's default)"),
        (None, "2025.3.1.0", "Clock control", None),
    ],
)  # fmt: skip
def test_settings_of_ncu(
    command: str | None, version: str | None, name: str, setting: str | None
) -> None:
    """Defaults depend on the version; options of the program are not those of ncu; without a
    command line, or without the version that a default depends on, nothing is said."""
    facts = captured(read_profile(FLIP), command_line=command, ncu_version=version)
    assert (version or "not recorded") in facts["Nsight Compute"]
    found = facts.get(name)
    assert found == setting if setting is None or found is None else found.startswith(setting)


def with_clock(launch: Launch, ghz: float, us: float) -> Launch:
    found = copy(launch)
    amounts = {"sm_frequency": Quantity(ghz * 1e9, "hz"), "duration": Quantity(us * 1e3, "ns")}
    found.get = amounts.get  # type: ignore[assignment,method-assign]
    found.__dict__["rank_time"] = us * 1e3
    return found


def test_clocks(wording) -> None:
    (launch,) = read_profile(FLIP).launches
    alike = [with_clock(launch, 1.95, 100), with_clock(launch, 1.98, 100)]
    assert clock_warning(alike) == ""
    apart = [with_clock(launch, 1.29, 100), with_clock(launch, 0.645, 100)]
    wording(clock_warning(apart))
    short = [with_clock(launch, 1.29, 100), with_clock(launch, 0.554, 2.2)]
    assert "not exact" in clock_warning(short)
    clocks = [Quantity(1.2e9, "hz"), None, Quantity(5.54e8, "hz")]
    assert range_text(clocks) == "554 MHz to 1.20 GHz"
    assert range_text([None]) == ""


@each_row(
    "path",
    [
        FLIP,
        sample_report("window_median"),
        REPORTS / "metrics_only.ncu-repz",
        REPORTS / "range.ncu-rep",  # ranges have no shape
    ],
)
def test_the_launch_in_a_few_facts(path: Path, wording) -> None:
    blocks = [*facts_blocks(read_profile(path).launches[0])]
    wording(texts_of(blocks), case=path.parent.name + path.name)


@each_row("everything", [True, False])
def test_rows_of_the_program_sort_by_the_numbers_of_the_document(everything: bool) -> None:
    explanation = explained(TOUR) if everything else zoo_thrice()
    page = explain_html_page(explanation, everything=everything)
    rows = table_of(part_of(page, "program"))
    wanted = explain_document(explanation).program.rows
    assert len(rows) == len(wanted) > 2
    for row, expected in zip(rows, wanted, strict=True):
        assert row["Kernel"].value == expected.kernel
        assert links_of(row["Kernel"].words) == [f"launch-{expected.representative}"]
        assert row["Share"].value == pytest.approx(100 * expected.share)
        assert row["Share"].share == pytest.approx(expected.share)
        assert row["Time"].value == pytest.approx(1000 * expected.us_total)
        assert row["Launches"].value == expected.count == int(plain(row["Launches"].words))
        gain = expected.gain.likely if expected.gain and expected.gain.likely >= 1.02 else None
        assert row["Gain"].value == (pytest.approx(gain) if gain else "")
        assert row["Gain"].words == (times_text(gain) if gain else "")
    shares = [each.share for each in wanted]
    assert sorted(shares, reverse=True) == shares
    assert len({*shares}) > 2
    # The button copies the prompt of the launch that takes most time.
    most = max(wanted, key=lambda row: row.us_total)
    assert page.copies[0] == f"launch-{most.representative}-context"
    codes = [block for block in every_block(page.blocks) if isinstance(block, Code)]
    (copied,) = [code for code in codes if code.anchor == page.copies[0]]
    assert most.kernel in "\n".join(copied.lines)
    assert len([code for code in codes if code.anchor.endswith("-context")]) > 1


def index_of(*explanations: Explanation) -> list[dict[str, Cell]]:
    return table_of(part_of(explain_html_page(*explanations, several=True), "reports"))


def test_a_gain_that_is_no_finding_is_not_printed() -> None:
    """As in the table of the program and on a terminal."""
    wanted, (row,) = document(FLIP).launches[0], index_of(flip())
    assert row["Gain"].value == pytest.approx(wanted.findings[0].forecast.likely)
    assert row["Time"].value == pytest.approx(1000 * wanted.duration.value)
    assert row["Answer"].words == wanted.verdict.headline
    shown = {}
    for likely in (1.0, 1.02, 1.09, 1.1):
        (each,) = flip().launches
        forecast = replace(each.findings[0].forecast, low=1.0, likely=likely)
        changed = replace(each, findings=(replace(each.findings[0], forecast=forecast),))
        (row,) = index_of(flip()._replace(launches=(changed,)))
        shown[likely] = row["Gain"].words
    assert shown == {1.0: "", 1.02: "", 1.09: "", 1.1: times_text(1.1)}


@each_row("path", [FLIP, PHYSICS, TOUR], few=1)
def test_numbers_are_linked_to_those_they_were_computed_from(path: Path) -> None:
    followed = 0
    for each, expected in zip(explained(path).launches, document(path).launches, strict=True):
        values = {piece.id: str(piece) for piece in each.view.ledger}
        for finding in expected.findings:
            article = with_id(page_of(path), f"launch-{expected.id}-finding-{finding.rank}")
            rows = list(_evidence_rows(article))
            keys = {name: key for name, key, *_ in rows}
            assert {piece.id for piece in finding.evidence} <= {*keys}
            for name, _, value, links in rows:
                assert value == values[name]
                sources = expected.evidence[name].derived_from or []
                assert {*sources} <= {*keys}
                assert links == [keys[source] for source in dict.fromkeys(sources)]
                followed += len(links)
    assert followed > 5


def _evidence_rows(finding: ET.Element) -> Iterator[tuple[str, str, str, list[str]]]:
    """Ids of a number and of its row, its value, and where the row links to."""
    (fold,) = with_class(finding, "evidence")
    for row in next(fold.iter("tbody")).iter("tr"):
        value, what, source = row
        (name,) = what.iter("code")
        yield words(name), row.get("id", ""), words(value), links_in(source)


RUN = RunTable(
    (KernelRun("tour::normalise", "tour::normalise", None, None, 100, 241e6, 241e6, 0.0),),
    recorder="cupti",
    profiled=(ProfiledLaunch(2, 40, 2_410_000.0),),
)
"""A kernel that takes 14.69 us under replay, and 2.41 ms in the run."""


def test_replay_gap_is_printed_before_the_answer() -> None:
    profile = replace(read_profile(TOUR), run=RUN)
    explanation = explain(profile, profile.launches, 5)
    page = explain_html_page(explanation, everything=True)
    for each in explanation.launches:
        told = texts_of([part_of(page, f"launch-{each.launch.id}")])
        before = "\n".join(told[: told.index(f"Limit {first_sentence(each.verdict.headline)[0]}")])
        assert (each.replay is not None) == ("2.41 ms" in before)
        if each.replay:
            assert each.replay.text in before
            assert each.replay.open_reasons
            assert all(reason.text[1:] in before for reason in each.replay.open_reasons)
    assert [each.launch.id for each in explanation.launches if each.replay] == [2]


@pytest.mark.slow
@each_row("path", [PHYSICS, DECAY])
def test_places_of_a_finding_show_their_code(path: Path) -> None:
    """A closing brace is not informative on its own."""
    braces = 0
    for each in explained(path).launches:
        for number, finding in enumerate(each.findings, 1):
            article = with_id(page_of(path), f"launch-{each.launch.id}-finding-{number}")
            listed = [item for places in with_class(article, "places") for item in places]
            for place, item in zip(finding.locations, listed, strict=False):
                code = source_lines(each.launch)[place.file][place.line - 1].strip()
                (shown,) = item.iter("code")
                assert words(shown).startswith(" ".join(code.split()))
                braces += code == "}"
                assert code != "}" or len(words(shown)) > 20
    assert braces == (1 if path is DECAY else 0)


@each_row("path", [FLIP, PHYSICS, TOUR])
def test_rules_with_the_largest_estimate_come_first(path: Path, wording) -> None:
    """Estimates for the whole launch come before estimates for a part."""
    titles = []
    for each in explained(path).launches:
        fold = next(b for b in every_block(rules_blocks(each, Anchors())) if isinstance(b, Fold))
        messages = {message_text(rule.message) for rule in each.launch.rules}
        titles += [text for text in texts_of(fold.blocks) if text not in messages]
    wording(titles, case=path.parent.name)


@each_row("path", [TOUR, ZOO])
def test_the_roofline_is_sorted_by_the_numbers_of_the_document(path: Path) -> None:
    profile = read_profile(path)
    figure = page_tree(draw_roofline(RooflineFigure(profile.launches, Anchors())))
    launches = [find_roofline(launch) for launch in profile.launches]
    rows = {int(words(r["#"])): r for r in table_rows(figure)}
    assert {*rows} == {each.id for each in launches}
    for each in launches:
        row = rows[each.id]
        reached = {ceiling.id: ceiling.reached_pct for ceiling in each.ceilings}
        at_dram = [
            i.value for i in each.intensities if (i.arithmetic, i.level) == (each.lead, "dram")
        ]
        nearest = reached[each.nearest[0]] / 100 if each.nearest else None
        assert value_of(row["#"]) == each.id
        assert each.duration.unit == "ns"
        assert value_of(row["Time"]) == pytest.approx(each.duration.value)
        assert value_of(row["Arithmetic"]) == (
            pytest.approx(reached[each.lead] / 100) if each.lead else None
        )
        assert value_of(row["Per DRAM byte"]) == (pytest.approx(at_dram[0]) if at_dram else None)
        assert value_of(row["Nearest ceiling"]) == pytest.approx(nearest)
        assert words(row["Nearest ceiling"]).startswith(f"{100 * (nearest or 0):.0f}%")
