"""`keet explain` of many launches: the program, then as much of the important launches as fits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.public_reports import MANUALLY_READ
from keet.corpus.discovery import reports_in
from keet.explanation.analyst import explain, explain_document
from keet.explanation.explanation_types import Explanation
from keet.explanation.launch_figures import figures_text
from keet.explanation.program import program_of
from keet.formats.terminal import reader, terminal_text
from keet.pages.blocks import Bars, Block, Format, Heading, Items, plain
from keet.pages.context import context_text
from keet.pages.explain import MOST_LINES, details_that_fit, hidden_text
from keet.pages.launch import HEADING, Detail
from keet.pages.program import first_row, listed_across, listed_rows, program_blocks
from keet.profile import Launch
from keet.profile.run_link import MAX_DECODED
from keet.report import read_profile
from keet.verification.launch_values import (
    ComputedValues,
    LaunchValues,
    program_texts,
    program_values,
)
from keet.verification.verify import verify_text
from tests.conftest import CORPUS, REPORTS, Keet, needs_corpus
from tests.explain_pages import explain_blocks, explain_markdown, explain_terminal, texts_of
from tests.explained_reports import explained as explained_with_code
from tests.many_launches import copied, repeated
from tests.page_blocks import explain_texts
from tests.rows import each_row

PIPELINE = REPORTS / "pipeline_before.ncu-repz"
TITLE = re.compile(r"^#\d+ ", re.MULTILINE)


@cache
def explained_report(name: str) -> Explanation:
    profile = read_profile(REPORTS / name)
    return explain(profile, profile.launches, 5, sass=False)


@cache
def many() -> Explanation:
    """152 launches of 16 kernels."""
    names = ("tour_full.ncu-repz", "pipeline_before.ncu-repz", "zoo.ncu-repz")
    profiles = [read_profile(REPORTS / name) for name in names]
    launches = [launch for profile in profiles for launch in profile.launches]
    mixed = tuple(copied(launch, number) for number, launch in enumerate(launches))
    profile = repeated(replace(profiles[0], launches=mixed, code_loader=None), 8)
    return explain(profile, profile.launches, 5, sass=False)


def launches_in(blocks: Iterable[Block]) -> list[int]:
    """Numbers of the launches that have a heading."""
    titles = [plain(block.words) for block in blocks if isinstance(block, Heading)]
    return [int(found[1]) for title in titles if (found := re.match(r"#(\d+) ", title))]


def test_launches_in_order_and_printed_once() -> None:
    explanation = explained_report("tour_full.ncu-repz")
    ranked = [n.id for group in program_of(explanation).groups for n in group.launches]
    assert ranked != sorted(ranked)
    assert launches_in(explain_blocks(explanation, everything=True)) == ranked
    explanation = explained_report("pipeline_before.ncu-repz")
    program = program_of(explanation)
    told = explain_texts(explanation, everything=True)
    for found in listed_across(program):
        assert len([text for text in told if found.text in text]) == 1
    assert program.cross_launch
    profile = read_profile(REPORTS / "tour_full.ncu-repz")
    explanation = explain(profile, profile.launches[:2], 5, sass=False)
    hidden = 2 - len(launches_in(explain_blocks(explanation)))
    told = explain_texts(explanation)
    assert [text for text in told if "more launch" in text] == [hidden_text(1)] * hidden
    assert any(text.startswith("2 launches of 2 kernels take") for text in told)


@pytest.mark.slow
def test_many_launches_fit_on_sixty_lines() -> None:
    for width in (80, 160):
        text = explain_terminal(many(), width)
        assert text.count("\n") <= MOST_LINES
        breakable = [line for line in text.splitlines() if " " in line.strip().removesuffix(" \\")]
        assert max(map(len, breakable)) <= width
        count = len(launches_in(explain_blocks(many(), width)))
        assert 1 <= count <= 3
        assert hidden_text(len(many().launches) - count) in explain_texts(many(), width)
    text = explain_markdown(many())
    assert text.count("\n") <= MOST_LINES
    assert 1 <= text.count("\n### Launch ") <= 3
    assert "#" not in re.sub(r"^#+ ", "", text, flags=re.MULTILINE), "would be a link to an issue"


@pytest.mark.slow
def test_json_and_the_table_keep_every_launch() -> None:
    """A long table is combined, its times add up, and `keet verify` knows its numbers."""
    every, document = [*range(152)], explain_document(many()).to_dict()
    assert [each["id"] for each in document["launches"]] == every
    rows = document["program"]["rows"]
    assert sum(row["count"] for row in rows) == len(every)
    assert sorted(n for row in rows for n in row["launches"]) == every
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    for row in rows:
        assert row["us_min"] <= row["us_median"] <= row["us_max"]
        assert row["representative"] in row["launches"]
    for found in document["program"]["cross_launch"]:
        assert set(found["evidence"]) <= set(document["program"]["evidence"])
    program = program_of(many())
    for most in (3, 8, 100):
        listed = listed_rows(program, most)
        assert len(listed) <= most
        assert sum(row.us_total for row in listed) == pytest.approx(program.us_total)
        assert sum(row.count for row in listed) == len(every)
    known = ComputedValues(
        general=lambda: program_values(program), sentences=lambda: program_texts(program)
    )
    text = terminal_text([*program_blocks(program, reader(100))], 100)
    checks = checks_of(text, [each.launch for each in many().launches], known)
    assert len(checks) > 40
    assert verdicts(checks)["contradicted"] == 0
    assert verdicts(checks)["confirmed"] >= 0.95 * len(checks)


def checks_of(text: str, launches: Sequence[Launch], known: ComputedValues) -> list[Any]:
    return [c for each in verify_text(text, launches, known=known) for c in each.checks]


def verdicts(checks: Sequence[Any]) -> Counter[str]:
    return Counter(check.verdict for check in checks)


@pytest.mark.slow
@each_row("sample", ["matrix_flip", "sparse_apply"])
def test_verify_confirms_what_is_printed(sample: str) -> None:
    explanation = explained_with_code(sample)
    known = ComputedValues([LaunchValues(explanation.profile)])
    texts = {
        explain_terminal(explanation, 80): 0.1,  # lines break inside of numbers' labels
        explain_markdown(explanation): 0.08,
        context_text(explanation, 2000): 0.08,
    }
    for text, most in texts.items():
        checks = checks_of(text, explanation.profile.launches, known)
        assert len(checks) >= 15
        assert verdicts(checks)["contradicted"] == 0
        doubts = [c.number.text for c in checks if c.verdict == "not_found"]
        assert len(doubts) <= most * len(checks), doubts


@each_row(("launches", "count"), [("3", 1), ("0-5", 6)])
def test_launches_by_number_are_all_printed(launches: str, count: int, keet: Keet) -> None:
    """One launch has no table before it."""
    out = keet("explain", PIPELINE, "--launch", launches, "--no-model", "--no-sass").out
    assert len(TITLE.findall(out)) == count
    assert ("Share" in out) == (count > 1)


@given(
    st.lists(st.tuples(*[st.integers(1, 80)] * 3).map(sorted), min_size=1, max_size=3),
    st.integers(-10, 200),
)
def test_details_are_reduced_until_launches_fit(sizes: list[list[int]], room: int) -> None:
    """Never more lines than the limit, unless it is one launch in brief."""
    order: list[Detail] = ["brief", "middle", "full"]

    def lines(place: int, detail: Detail) -> int:
        return sizes[place][order.index(detail)]

    details = details_that_fit(len(sizes), lines, room)
    used = sum(lines(place, detail) for place, detail in enumerate(details))
    assert used <= room or details == ("brief",)
    every = sum(size[2] for size in sizes)
    assert every > room or details == ("full",) * len(sizes)


@needs_corpus
@pytest.mark.slow
def test_public_reports_with_many_launches() -> None:
    """105 identical launches have one answer. Launches of one shape are not called identical: their
    times differ by a third."""
    (path,) = CORPUS.glob("algoparc__*.ncu-rep")
    profile = read_profile(path)
    text = " ".join(explain_texts(explain(profile, profile.launches, 5, sass=False)))
    assert "which take 2.43 ms to 3.30 ms" in text
    assert "identical" not in text
    for path in MANUALLY_READ.glob("spymaster2h*"):
        profile = read_profile(path)
        text = explain_terminal(explain(profile, profile.launches, 5, sass=False))
        assert text.count("\n") <= MOST_LINES
        assert "105 launches of 1 kernel" in text
        assert "represents 105 launches" in " ".join(text.split())
        assert len(TITLE.findall(text)) == 1


def test_table_and_finding_print_one_gain() -> None:
    for row in program_of(explained_report("zoo.ncu-repz")).rows:
        first = row.first
        if first and row.finding and row.finding.id != "launch_bound":
            assert row.gain is not None
            assert row.gain == row.finding.forecast


def test_why_a_cause_is_only_possible_is_printed_once() -> None:
    profile, found = read_profile(REPORTS / "tour_basic.ncu-repz"), 0
    for launch in profile.launches:
        told = explain_texts(explain(profile, [launch], 5, sass=False))
        reasons = [text for text in told if text.startswith("Only possible: ")]
        assert len(reasons) == len(set(reasons))
        found += bool(reasons)
    assert found


SAMPLES = Path("kernels_samples")
EVERY = sorted(path.parent.name for path in SAMPLES.glob("*/slow.ncu-rep*"))
SCREEN = 24
explained = partial(explained_with_code, sass=False)


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


@each_row("sample", EVERY[::2], few=5)
def test_the_advice_is_on_the_first_screen(sample: str) -> None:
    assert_advice_on_first_screen(explained(sample))


@needs_corpus
@pytest.mark.slow
def test_the_advice_of_public_reports_is_on_the_first_screen() -> None:
    paths = [path for folder in (CORPUS, MANUALLY_READ) for path in reports_in(folder)]
    for path in paths[::4]:
        profile = read_profile(path)
        explanation = explain(profile, profile.launches, 5, sass=False, most=MAX_DECODED)
        assert_advice_on_first_screen(explanation)


@each_row("form", ["terminal", "markdown"])
def test_what_to_change_comes_before_what_was_measured(form: Format) -> None:
    explanation = explained_with_code("matrix_flip")
    (each,) = explanation.launches
    texts = texts_of(explain_blocks(explanation, form=form))
    order = (
        each.launch.kernel, each.verdict.headline, each.findings[0].title, each.findings[0].action,
        figures_text(each.view), HEADING, "How much work",
    )  # fmt: skip
    places = [next(n for n, text in enumerate(texts) if words in text) for words in order]
    assert places == sorted(places)


def test_every_part_with_its_evidence_or_small_parts_summed() -> None:
    (each,) = explained("gas_state").launches
    blocks = explain_blocks(explained("gas_state"), verbose=True)
    items = [item for block in blocks if isinstance(block, Items) for item in block.items]
    shown = {plain(item.words): plain(item.label) for item in items}
    for part in each.account.all():
        ids = ", ".join(dict.fromkeys(piece.id for piece in part.sources))
        cited = f"{part.percent.id} from {ids}" if ids else part.percent.id
        assert shown[f"{part.part} [{cited}]"].startswith(f"{part.percent:.1f}")
    (account,) = (each for each in explain_blocks(explained("gas_state")) if isinstance(each, Bars))
    assert 3 <= len(account.bars) <= 7
    assert "other" in [bar.label for bar in account.bars]
    # A launch without measurements has no account.
    (each,) = explained("matrix_flip").launches
    failed = replace(each, verdict=replace(each.verdict, not_judged=True))
    explanation = explained("matrix_flip")._replace(launches=(failed,))
    assert not [block for block in explain_blocks(explanation) if isinstance(block, Bars)]
    assert "the time of this" not in context_text(explanation, 2000)


def test_each_finding_says_what_its_fix_gained() -> None:
    (launch,) = explain_document(explained("matrix_flip")).launches
    first = launch.findings[0]
    told = " ".join(explain_texts(explained("matrix_flip")))
    for text in (told, context_text(explained("matrix_flip"), 2000)):
        assert f"In {first.precedents.cases} measured cases" in text
        assert f"keet finding {first.nearest_case.id}" in text
