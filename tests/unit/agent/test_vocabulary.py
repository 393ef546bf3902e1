"""Names that a model may refer to: with and without the launch, of several reports, of the source."""

from __future__ import annotations

import re

from keet_tools.answers import ToolInput
from keet_tools.registry import TOOLS, call_tool

from keet.agent.vocabulary import Vocabulary, evidence_summary, overview, vocabulary
from keet.formatting import guess_tokens
from keet.prose.expressions import parse
from tests.rows import each_row
from tests.unit.agent.conversations import explained

TILES, FLIP = "score_tiles/slow", ("matrix_flip/slow", "matrix_flip/fast")
TOUR = "tests/data/reports/tour_full.ncu-repz"


def words_of(*names: str, focus: int = 0, show_source: bool = True) -> Vocabulary:
    return vocabulary(ToolInput(explained(*names), focus=focus, show_source=show_source))


def assert_all_are_known(tool_input: ToolInput, text: str) -> None:
    words = vocabulary(tool_input)
    assert [name for name in names_in(text) if not words.names.lookup(name).ids] == []


def ids_in(words: Vocabulary, text: str) -> tuple[str, ...]:
    prose = words.read(text)
    assert prose.problems == ()
    return prose.ids


def test_a_name_without_a_launch_is_of_the_one_in_focus() -> None:
    words = words_of(TOUR)
    both = ("duration#0", "duration#2")
    assert ids_in(words, "It takes {duration}; the third takes {duration#2}.") == both
    assert ids_in(words, "It takes {duration#0}.") == both[:1]
    assert ids_in(words_of(TOUR, focus=2), "It takes {duration}.") == both[1:]
    assert "#2}" not in evidence_summary(ToolInput(explained(TOUR), focus=2))
    # names of two reports
    words = words_of(*FLIP)
    text = "It took {duration#0}, now {duration#1.0}; {duration#0 > 5 * duration#1.0}."
    assert ids_in(words, text) == ("duration#0", "duration#1.0")
    wrong = words.read("It is slow: {duration#0 < duration#1.0}.")
    assert "is false" in str(wrong.problems[0].problem)


def test_metrics_that_no_tool_returned_can_be_used() -> None:
    """A name of the catalog is enough: the number is looked up in the report."""
    tool_input = ToolInput(explained(TILES))
    assert "l2_throughput_bytes_per_second#0" not in {piece.id for piece in tool_input.evidence()}
    names = ("branch_efficiency_pct", "ipc_active", "inst_issued")
    unasked = next(name for name in names if tool_input.find(name) is not None)
    assert ids_in(words_of(TILES), f"See {{{unasked}}}.") == (f"{unasked}#0",)


def test_an_unknown_name_is_told_what_is_close(wording) -> None:
    (problem,) = words_of(TILES).read("It takes {duratoin}.").problems
    wording(str(problem.problem))


def test_constants_of_the_source_have_values() -> None:
    """But with `--redact source`: a constant would tell of code that was not shown."""
    prose = words_of(TILES).read("A tile has {kTile * kDepth * 4 B}.")
    assert (prose.problems, prose.ids) == ((), ())
    assert str(prose) == "A tile has 8.19 kB (`kTile` 128 × `kDepth` 16 × 4 B)."
    hidden = words_of(TILES, show_source=False)
    for text in ("A tile has {kTile * 4 B}.", "It reads `item_tile[item + 3][k]`."):
        assert hidden.read(text).problems


def test_what_a_text_may_quote() -> None:
    """A proposal may choose sizes of the suggested code."""
    words, loads = words_of(TILES), "It loads `item_tile[777]`."
    assert not words.read("It loads `float4` at slow.cu:17, from `from_item[kPerThread]`.").problems
    assert words.read(loads).problems
    code = ["item_tile[777]", "constexpr int kPitch = 777;"]
    words = vocabulary(ToolInput(explained(TILES)), code)
    assert not words.read(loads).problems
    assert not words.read("Use a pitch of 777.", is_proposal=True).problems
    assert words.read("The pitch is 777.").problems
    for text in ("Use a pitch of 778.", "It gets 777 % faster."):
        assert words.read(text, is_proposal=True).problems


@each_row("names", [FLIP, (TOUR,), ("stencil_march/slow",), ("gas_state/slow",)], few=1)
def test_every_evidence_id_can_be_parsed_and_resolved(names: tuple[str, ...]) -> None:
    """Whatever tools hand out is a name that the parser takes for one, and that is found."""
    tool_input = ToolInput(explained(*names))
    for name in TOOLS:
        call_tool(tool_input, name, {})
    words = vocabulary(tool_input)
    pieces = list(tool_input.evidence())
    assert len(pieces) > 100
    for piece in pieces:
        assert parse(piece.id).kind == "name", piece.id
        assert words.names.lookup(piece.id).ids == (piece.id,)


SAMPLES = ["score_tiles/slow", "matrix_flip/slow", "gas_state/slow", "stencil_march/slow"]


def names_in(text: str) -> list[str]:
    return re.findall(r"\{([^{}\s]+)\}", re.sub(r"`[^`\n]*`", "", text))


NEEDED = (
    *("{duration}", "{dram_bytes_read}", "{l2_hit_rate_pct}", "{device_sm_count}", "{sm_clock}"),
    *("launch: grid", "device: ", "busy, of peak", "traffic: ", "warp time by state:"),
    "where the time ",
)


@each_row("sample", SAMPLES)
def test_the_summary_has_all_sections_and_key_metrics(sample: str) -> None:
    """And every name in it can be resolved."""
    tool_input = ToolInput(explained(sample))
    text = evidence_summary(tool_input)
    needed = [*NEEDED, *(finding.id for finding in tool_input.launch().findings)]
    assert [each for each in needed if each not in text] == []
    assert "#0}" not in text  # names of the launch in focus are short
    assert guess_tokens(text) < 5000
    assert len(names_in(text)) > 40
    assert_all_are_known(tool_input, text)


def test_without_source_the_machine_code_is_given() -> None:
    shown = evidence_summary(ToolInput(explained(TILES)))
    hidden = evidence_summary(ToolInput(explained(TILES), show_source=False))
    bare = evidence_summary(ToolInput(explained("tests/data/reports/tour_nolines.ncu-repz")))
    assert "bytes by pointer:" in shown
    assert "item_tile" not in hidden
    assert re.search(r"0x[0-9a-f]{4} .*`[A-Z]", bare)


def test_against_another_report_the_difference_is_given() -> None:
    """A question gets every report."""
    tool_input = ToolInput(explained(*reversed(FLIP)))
    text, every = evidence_summary(tool_input), overview(tool_input)
    assert "report 1 is before" in text
    assert "7.02x {all_kernels_speedup#1.0-0.0} faster" in text
    parts = ("report 0:", "report 1:", "{duration}", "{duration#1.0}")
    assert [part for part in parts if part not in every] == []
    for each in (text, every):
        assert_all_are_known(tool_input, each)
