"""Each format renders every kind of block, and no text of a report becomes markup in it."""

from __future__ import annotations

import builtins
import io
import re
import shlex
import subprocess
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from keet.explanation.analyst import explain
from keet.formats import markdown, page_text, terminal
from keet.formats.github import in_checkout
from keet.formats.html.blocks import FIGURES, html_page
from keet.pages.blocks import (
    LINE_BREAK,
    Bar,
    Bars,
    Block,
    Cell,
    Code,
    Column,
    Command,
    Figure,
    Fold,
    Foot,
    Gap,
    Heading,
    Item,
    Items,
    Notice,
    Page,
    Part,
    Span,
    Table,
    Text,
    joined,
    plain,
    spans,
)
from keet.pages.explain import explain_page
from keet.profile import Location
from keet.report import read_profile
from tests.kept_reports import sample_report
from tests.page_parts import html_blocks

HOSTILE = "a|b `c` **d** <script>\x1b[31m\u202ee\nf"
TABLE = Table(
    [Column("Kernel", look="name"), Column("Time", is_number=True), Column("Why", wide=130)],
    [["scale", "3 us", "L2"], [Cell("turn", below="launch 3"), "12 us", "latency"]],
    caption="and 2 more",
)
EVERY: list[Block] = [
    Heading("Faster", look="verdict good"),
    Text(("on ", Span("H200", "name"), ", ", Span("odd", "strong"))),
    Notice("Less certain"),
    Gap(),
    Items([Item("first", Span("20%", "strong")), Item("second", depth=1)], "why"),
    TABLE,
    Bars([Bar(0.5, "50%", "waiting", "2 us"), Bar(0.2, "20%", "for L2", depth=1)], length=8),
    Code(["int a;", "+int b;"], "diff", numbers=["7", "8"]),
    Command("ncu --set full -o report ./app"),
    Fold("Details", [Text("inside")]),
    Part([Text("within")], indent=2),
    Figure(short=[Text("drawn")]),
    Foot("keet"),
]


def text(*blocks: Block, width: int = 100) -> str:
    return terminal.terminal_text(blocks, width)


def test_every_kind_of_block_is_in_the_list() -> None:
    assert {type(block) for block in EVERY} == {*Block.__subclasses__()} - {Page}


def test_every_format_shows_all_blocks(wording) -> None:
    wording(text(*EVERY), case="terminal")
    wording(markdown.markdown(EVERY), case="markdown")
    wording(html_blocks(EVERY), case="html")
    assert "latency" in text(TABLE, width=130)
    assert "latency" not in text(TABLE, width=129)


ITEMS = Items([Item("a"), Item("b", depth=1), Item("c", depth=2), Item("d")], mark="")


@pytest.mark.parametrize(
    ("blocks", "html"),
    [
        ([Text((Span("here", to="a"), Span("not here", "code", to="b"))), Part([], anchor="a")],
         '<p><a href="#a">here</a><code>not here</code></p><div id="a"></div>'),
        ([ITEMS], '<ul class="unmarked"><li>a<ul><li>b<ul><li>c</li></ul></li></ul></li><li>d</li></ul>'),
        ([Text(Span("samples/a-b/slow.ncu-rep", "name path"))],
         "<span>samples/</span><span>a-b/</span><span>slow.ncu-rep</span></span>"),
        ([Code(["\tint a;", "b <c"], "cuda", copied="Copy code", anchor="it")],
         '<code id="it"><span>\tint a;\n</span><span>b &lt;c\n</span></code>'),
        ([Code(["a"], copied="Copy code", anchor="it")], 'data-copy="it" hidden>Copy code</button>'),
    ],
)  # fmt: skip
def test_html_of_a_block(blocks: list[Block], html: str) -> None:
    assert html in html_blocks(blocks)


def test_an_html_page_has_its_bar_and_its_foot() -> None:
    html = html_page(Page(EVERY, "Faster - keet", "a.ncu-rep", [("why", "Why")], ("why", "Copy")))
    assert "<title>Faster - keet</title>" in html
    assert 'keet: a.ncu-rep</span><nav aria-label="Parts of the page"' in html
    assert '<a href="#why">Why</a>' in html
    assert '<button type="button" data-copy="why" hidden>Copy</button>' in html
    assert '<footer class="page-foot"><p>keet</p></footer>' in html


def test_every_figure_is_drawn_by_a_function_of_html() -> None:
    import keet.pages.blocks
    import keet.pages.insights  # noqa: F401  has figures of its own

    kinds = {kind.__name__ for kind in Figure.__subclasses__() if kind.__module__[:4] == "keet"}
    assert kinds == {*FIGURES}
    for drawn in FIGURES.values():
        module, _, name = drawn.rpartition(".")
        assert callable(getattr(import_module(f"keet.formats.html.{module}"), name))


def test_an_annotation_is_in_the_file_whose_folders_agree_for_longest(tmp_path: Path) -> None:
    for name in ("k.cu", "src/k.cu", "other/k.cu"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("int a;\n")
    place = in_checkout(Location("/build/src/k.cu", 1), "int a;", tmp_path)
    assert place == Location("src/k.cu", 1)


def test_patch_lines_are_classified() -> None:
    """A removed line may look like the name of a file."""
    lines = {
        "--- a/x.cu": "file", "+++ b/x.cu": "file", "@@ -1,3 +1,3 @@": "hunk", " int i = 2;": None,
        "--- i;": "removed", "+++ i;": "added", " }": None, "\\ No newline at end of file": "file",
    }  # fmt: skip
    html = html_blocks([Code([*lines], "diff")])
    found = re.findall(r'<span(?: class="(\w+)")?>([^<]*)\n</span>', html)
    assert {text: name or None for name, text in found} == lines


def test_cells_of_html_have_values_to_sort_by_and_bars() -> None:
    """Values have all digits; an empty one is last."""
    cells = [["a", Cell("33%", value=1 / 3, share=1 / 3)], ["b", Cell("-", value="")]]
    html = html_blocks([Table([Column("name"), Column("share")], cells)])
    assert "<table data-sortable" in html
    assert re.findall('data-value="([^"]*)"', html) == [str(1 / 3), ""]
    (width,) = re.findall('<rect[^>]* width="([0-9.]+)%"', html)
    assert float(width) == pytest.approx(100 / 3, abs=0.06)


HOSTILE_BLOCKS = [
    Heading(HOSTILE),
    Text((Span(HOSTILE, "name"), Span(HOSTILE, "strong"), HOSTILE, Span(HOSTILE, "code", HOSTILE))),
    Items([Item(HOSTILE, HOSTILE)], HOSTILE),
    Table([Column(HOSTILE)], [[Cell(HOSTILE, HOSTILE, HOSTILE)], [HOSTILE]], HOSTILE, HOSTILE),
    Bars([Bar(1.0, HOSTILE, HOSTILE, HOSTILE)]),
    Code([HOSTILE], "diff", numbers=[HOSTILE], copied=HOSTILE),
    Command(HOSTILE),
    Fold(HOSTILE, [Part([Text(HOSTILE)], HOSTILE, HOSTILE)], level=3, anchor=HOSTILE),
]


def test_hostile_texts_are_inert(monkeypatch: pytest.MonkeyPatch) -> None:
    html = html_page(Page(HOSTILE_BLOCKS, HOSTILE, HOSTILE, [(HOSTILE, HOSTILE)]))
    assert html.count("<script") == 1
    assert not re.search(r"[\x1b\u202e]", html)
    for block in HOSTILE_BLOCKS:
        for part in markdown.markdown([block]).split("```")[::2]:  # code blocks hold anything
            outside = re.sub(r"(`+)[^`].*?[^`]?\1(?!`)", "", part)
            assert not re.search(r"(?<!\\)<script|[\x1b\u202e]", outside), block
    monkeypatch.setenv("NO_COLOR", "1")
    for printed, own in (
        (text(*HOSTILE_BLOCKS), r"(?!)"),
        (shown(HOSTILE_BLOCKS), r"\x1b\[[0-9;]*m"),  # keet's own, on a terminal
    ):
        assert "[31m" in printed
        assert not re.search(r"[\x1b\u202e]", re.sub(own, "", printed.replace("\\x1b[31m", "")))


class Stream(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def shown(blocks: list[Block], encoding: str = "utf-8") -> str:
    stream = Stream()
    stream.encoding = encoding
    terminal.print_page(lambda _: Page(blocks), stream)
    return stream.getvalue()


SURROUNDINGS = ("NO_COLOR", "FORCE_COLOR", "TERM", "COLORTERM", "TTY_COMPATIBLE")
SHOWN = {"TERM": "xterm"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (SHOWN, "\x1b[1;32mfast\x1b[0m\n"),
        ({**SHOWN, "NO_COLOR": "1"}, "\x1b[1mfast\x1b[0m\n"),
        ({"TERM": "dumb"}, "fast\n"),
        # Whether a pipe and a terminal are taken for a terminal.
        ({}, (False, True)),
        ({"FORCE_COLOR": "1"}, (True, True)),
        ({"FORCE_COLOR": ""}, (False, False)),
        ({"TTY_COMPATIBLE": "1"}, (True, True)),
        ({"TTY_COMPATIBLE": "0", "FORCE_COLOR": "1"}, (False, False)),
    ],
)
def test_the_environment_says_what_a_terminal_is(
    environment: dict[str, str], expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in SURROUNDINGS:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if isinstance(expected, str):
        assert shown([Heading("fast", look="strong good")]) == expected
    else:
        assert (terminal.is_terminal(io.StringIO()), terminal.is_terminal(Stream())) == expected


def test_without_rich_a_terminal_shows_markdown(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without_rich(name: str, *rest: Any, **options: Any) -> Any:
        if name.partition(".")[0] == "rich":
            raise ImportError(name)
        return imported(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", without_rich)
    assert text(*EVERY) == markdown.markdown(EVERY)
    assert terminal.reader(80).format == "markdown"


def test_a_command_is_broken_where_a_shell_continues_it() -> None:
    """As copied from the screen; a long list behind commas: one blank would divide it."""
    names = ",".join(f"smsp__sass_thread_inst_executed_op_{n}_pred_on.sum" for n in range(20))
    short = "ncu --set full --section SourceCounters -o 'a b' ./app --size 4096"
    long = f"ncu --section A --metrics {names} -k 'regex:^(a|b,c)$' -o a ./app --sizes 1,2,3"
    for width, command in ((40, short), (72, long), (80, long), (120, long)):
        lines = text(Command(command), width=width).splitlines()
        assert max(map(len, lines)) <= width
        assert all(line.endswith("\\") for line in lines[:-1])
        assert as_a_shell_reads(lines) == shlex.split(command)
    assert sum("," in line for line in lines) > 3


def as_a_shell_reads(lines: Sequence[str]) -> list[str]:
    script = 'for word in "$@"; do printf \'%s\\n\' "$word"; done'
    command = "\n".join(lines).strip()
    words = ["sh", "-c", f"show() {{ {script}; }}; show {command}"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()


def test_markdown_links_files_and_has_its_own_blocks() -> None:
    blocks = [Text("all"), Text("one", only=("terminal",)), Text("other", only=("markdown",))]
    assert text(*blocks) == "all\none\n"
    assert markdown.markdown(blocks) == "all\n\nother\n"
    assert markdown.markdown([Text(Span("a_b", "place", "a_b.md"))]) == "[`a_b`](a_b.md)\n"
    assert markdown.markdown([Text(Span("a_b", "place", "anchor"))]) == "`a_b`\n"


def test_long_code_and_line_breaks() -> None:
    code = Code([f"line {number}" for number in range(9)], most=3, rest="--format markdown")
    assert text(code).splitlines()[-1] == "│ ... 6 more lines: --format markdown"
    assert len(text(Code(["a"] * 4, most=3)).splitlines()) == 4  # as short as the remark
    cell = Cell("code", ("one", LINE_BREAK, "two"))
    table = Table([Column("Where")], [[cell]])
    assert text(table).splitlines()[2:] == ["code", "one", "two"]
    assert "| code (one two) |" in markdown.markdown([table])
    assert "one<br>two" in str(html_blocks([table]))
    words = ("a", Span("b", "strong"), ["", Span(""), ("c",)])
    assert list(spans(words)) == [Span("a"), Span("b", "strong"), Span("c")]
    assert plain(joined(["a", "", "b"], ", ")) == "a, b"
    columns = [Column("n", is_number=True), Column("time", is_number=True, bar=4)]
    rows = [["1", Cell("8 us", share=1.0)], ["16", Cell("2 us", share=0.25)], ["32", "none"]]
    table = Table(columns, rows, is_ruled=False, gap=3)
    assert text(table) == " n   time\n 1   8 us   ████\n16   2 us   █░░░\n32   none\n"
    assert "█" not in markdown.markdown([table])


def test_what_is_copied_is_not_cut_at_the_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    path = "keet explain " + "/a/long/folder" * 9
    monkeypatch.setenv("COLUMNS", "40")
    block = Text(Span(path, "code"), is_unbroken=True, indent=2)
    assert text(block, width=40) == f"  {path}\n"
    assert shown([block]) == f"  {path}\n"
    assert "/a/long/folder" * 9 in text(Command(path), width=40)


@pytest.mark.parametrize(
    ("columns", "width"), [("80", 80), ("0", 120), ("-3", 120), ("wide", 120), ("99999", 120)]
)
def test_columns_is_the_width_of_a_pipe(
    columns: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert terminal.terminal_width(io.StringIO()) == width


def test_a_terminal_without_unicode_gets_an_ascii_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    printed = shown([TABLE], "latin-1")
    assert "----" in printed
    assert "─" not in printed


@pytest.mark.parametrize(
    ("changed", "is_linked"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({"TERM": "linux"}, False)],
)
def test_a_terminal_gets_links_to_files_that_are_there(
    changed: dict[str, str], is_linked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in {"TERM": "xterm-256color", "COLUMNS": "80", **changed}.items():
        monkeypatch.setenv(name, value)
    source = tmp_path / "two words" / "slow.cu"
    source.parent.mkdir()
    source.write_text("", "utf-8")
    profile = read_profile(sample_report("matrix_flip"), source=tmp_path)
    explanation = explain(profile, profile.launches, 1, sass=False)
    screen = Stream()
    terminal.print_page(lambda reader: explain_page([explanation], reader), screen)
    assert (f";{source.as_uri()}\x1b\\" in screen.getvalue()) is is_linked
    assert ("\x1b]8;" in screen.getvalue()) is is_linked
    assert "\x1b" not in page_text(lambda reader: explain_page([explanation], reader), "terminal")
