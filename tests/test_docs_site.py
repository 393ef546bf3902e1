"""The documentation site: links lead somewhere, every page is in the navigation, nothing foreign."""

from __future__ import annotations

import json
import re
from html import unescape
from importlib import import_module
from pathlib import Path

import pytest
from docs_site import commands_page, terminal_picture
from docs_site.building import SiteError, build
from docs_site.pages import (
    NavigationError,
    checked_files,
    link_faults,
    parse,
    read_navigation,
    slug,
    unreachable_pages,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from keet.cli import COMMANDS, main, make_parser
from tests.page_parts import PageParts
from tests.rows import each_row

ROOT = Path(__file__).parent.parent
GENERATED = {"metrics", "results"}
"""Folders of pages that are tables: their links are checked when the site is built."""


def test_links_lead_somewhere() -> None:
    files = [path for path in checked_files(ROOT) if path.parent.name not in GENERATED]
    assert link_faults(ROOT, files) == []


def test_every_page_is_in_the_navigation() -> None:
    assert unreachable_pages(ROOT) == []


def test_the_commands_page_is_that_of_the_parsers() -> None:
    committed = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert committed == commands_page.page(), "run: make docs"


def test_the_commands_page_has_every_option_and_example() -> None:
    sections = dict(
        re.findall(r"^## keet (\w+)\n(.*?)(?=^## |\Z)", commands_page.page(), re.M | re.S)
    )
    assert list(sections) == list(COMMANDS)
    for name, command in COMMANDS.items():
        module = import_module(f"keet.cli.{command.module}")
        if hasattr(module, "find_action"):
            assert all(f"### keet {name} {action}\n" in sections[name] for action in module.ACTIONS)
            continue
        options = re.findall(r"^  .*?(--[a-z-]+)", make_parser(module, "keet").format_help(), re.M)
        shown = {each for each in options if each not in ("--help", "--quiet")}
        assert [each for each in sorted(shown) if each not in sections[name]] == []
        assert module.EXAMPLES.splitlines()[1].strip() in sections[name]


def test_getting_started_shows_what_keet_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "80")
    report = "kernels_samples/matrix_flip/slow.ncu-rep"
    assert main(["explain", report]) == 0
    printed = capsys.readouterr().out.rstrip("\n")
    text = (ROOT / "docs" / "getting_started.md").read_text(encoding="utf-8")
    shown = text.split(f"$ keet explain {report}\n")[1].split("\n```")[0]
    assert shown == printed
    excerpt = (ROOT / "docs" / "index.md").read_text(encoding="utf-8").split("```")[1]
    for line in excerpt.strip().splitlines()[1:]:
        assert line.removesuffix(" ...") in printed


def test_the_picture_of_the_readme_shows_what_keet_prints() -> None:
    picture = (ROOT / "docs/pictures/terminal_explain.svg").read_text(encoding="utf-8")
    lines = [unescape(re.sub("<[^>]*>", "", line)) for line in picture.splitlines()[2:]]
    printed = (ROOT / "tests/golden/explain.matrix_flip.80.txt").read_text(encoding="utf-8")
    command = f"$ keet {' '.join(terminal_picture.COMMAND)}"
    assert without_blanks(lines) == without_blanks([command, *printed.splitlines()])


def without_blanks(lines: list[str]) -> list[str]:
    """A picture has positions in place of blanks."""
    return ["".join(line.split()) for line in lines if line.strip()]


def test_runs_of_a_line_have_column_and_style() -> None:
    plain, bold = frozenset[str](), frozenset({"1", "36"})
    assert terminal_picture.runs_of("ab \x1b[1;36mcd\x1b[0m ef  ") == [
        (0, "ab ", plain),
        (3, "cd", bold),
        (5, " ef", plain),
    ]


# Checker and builder, on made-up repositories.


def links(page: PageParts) -> list[str | None]:
    return [each.get("href") for each in page.attributes("a")]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    docs = tmp_path / "repository" / "docs"
    docs.mkdir(parents=True)
    (docs / "navigation.toml").write_text(
        '[[section]]\ntitle = "Start"\npages = [["docs/index.md", "First"], "docs/*.md"]\n'
    )
    (docs / "index.md").write_text("# Home\n\n[next](other.md#a-part), [code](../code.py)\n")
    (docs / "other.md").write_text(
        "# Other\n\n## A part\n\n| id | text |\n|---|---:|\n"
        '| <a id="row"></a>`row_1` | x |\n\n## `A` part!\n\n```python\nx = 1 < 2\n```\n'
    )
    for name in ("README.md", "CHANGELOG.md"):
        (docs.parent / name).write_text("# Text\n")
    (docs.parent / "code.py").write_text("")
    return docs.parent


@each_row(
    ("link", "fault"),
    [
        ("[x](missing.md)", "missing.md: there is no such file"),
        ("[x](other.md#b-part)", "other.md#b-part: the page has no such heading"),
        ("[x](#nowhere)", "#nowhere: the page has no such heading"),
        ("![x](missing.png)", "missing.png: there is no such file"),
        ("[x][y]\n\n[y]: missing.md", "missing.md: there is no such file"),
        ("[x](../../secret)", "../../secret leads out of the repository"),
        ("[x](http://example.com)", "http://example.com is neither a file nor an https address"),
        ("[x](../code.py#L3)", "../code.py#L3: only Markdown pages have anchors"),
    ],
)
def test_a_broken_link_is_named(repository: Path, link: str, fault: str) -> None:
    page = repository / "docs" / "bad.md"
    page.write_text(f"# Bad\n\ntext\n{link}\n")
    assert link_faults(repository, [page]) == [f"docs/bad.md:3: {fault}"]


@each_row(
    "link",
    [
        "[x](other.md)",
        "[x](other.md#a-part)",
        "[x](other.md#a-part-1)",
        "[x](other.md#row)",
        "[x](https://example.com/#y)",
        "[x](../docs)",
        "`[x](missing.md)`",
        "    [x](missing.md)",
    ],
)
def test_a_good_link_is_not(repository: Path, link: str) -> None:
    page = repository / "docs" / "good.md"
    page.write_text(f"# Good\n\n{link}\n")
    assert link_faults(repository, [page]) == []


def test_a_site_is_built(repository: Path, tmp_path: Path) -> None:
    out = tmp_path / "site"
    assert build(repository, out) == 2
    home = PageParts((out / "index.html").read_text(encoding="utf-8"))
    assert links(home).count("other.html#a-part") == 1
    assert "../code.py" not in links(home)
    other = (out / "other.html").read_text(encoding="utf-8")
    assert {"a-part", "a-part-1", "row"} <= set(PageParts(other).ids)
    assert '<td class="number short">' in other
    assert "&lt;" in other
    entries = json.loads(
        (out / "search_index.js").read_text(encoding="utf-8").split("=", 1)[1].rstrip(";\n")
    )
    assert {"First", "Other"} == {entry["page"] for entry in entries}
    assert "row" in [entry["anchor"] for entry in entries]
    assert build(repository, out) == 2, "a site is replaced by the next one"


def test_a_site_with_faults_is_not_built(repository: Path, tmp_path: Path) -> None:
    (repository / "docs" / "other.md").write_text("# Other\n\n[x](gone.md)\n")
    with pytest.raises(SiteError, match=r"docs/other\.md:3: gone\.md"):
        build(repository, tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_other_folders_are_not_replaced(repository: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    with pytest.raises(SiteError, match="contains other files"):
        build(repository, mine)
    with pytest.raises(SiteError, match="is a file; name a folder"):
        build(repository, mine / "thesis.txt")
    assert (mine / "thesis.txt").read_text() == "years of work"


def test_faults_of_the_navigation(repository: Path) -> None:
    navigation = repository / "docs" / "navigation.toml"
    navigation.write_text('[[section]]\ntitle = "S"\npages = ["docs/index.md"]\n')
    assert unreachable_pages(repository) == ["docs/other.md is not in docs/navigation.toml; add it"]
    navigation.write_text('[[section]]\ntitle = "S"\npages = ["docs/gone.md"]\n')
    with pytest.raises(NavigationError, match=r"there is no docs/gone\.md"):
        read_navigation(repository)
    twice = '[[section]]\ntitle = "S"\npages = ["docs/index.md", "docs/index.md"]\n'
    navigation.write_text(twice)
    with pytest.raises(NavigationError, match="listed twice"):
        read_navigation(repository)


@each_row(
    ("heading", "anchor"),
    [
        ("Noise, and how many runs", "noise-and-how-many-runs"),
        ("`keet diff`: what changed?", "keet-diff-what-changed"),
        ("The agent, second version", "the-agent-second-version"),
        ("Größe", "größe"),
        ("a_b - c", "a_b---c"),
    ],
)
def test_anchors_are_those_of_github(heading: str, anchor: str) -> None:
    assert [each.slug for each in parse(f"## {heading}\n").headings] == [anchor]


@settings(max_examples=30)
@given(st.lists(st.text(alphabet="aB1é -_!`", max_size=6), max_size=8))
def test_anchors_are_unique(headings: list[str]) -> None:
    taken: set[str] = set()
    assert len({slug(text, taken) for text in headings}) == len(headings)


@settings(max_examples=60)
@given(st.text(alphabet="#[]()|`<>a-!*_ \n", max_size=60))
def test_any_text_is_a_document(text: str) -> None:
    document = parse(text)
    assert {each.slug for each in document.headings} <= document.anchors
