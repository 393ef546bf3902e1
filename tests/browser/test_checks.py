"""Each check passes a sound page, and finds the faults of pages that were made to have them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.browser import checks
from tests.browser.checks import Check
from tests.browser.driver import Browser, Opened

pytestmark = pytest.mark.slow

STYLE = """
:root { color-scheme: light dark } body { margin: 0; font: 16px/1.5 sans-serif }
main { padding: 0 12px } .box { overflow-x: auto } button { min-height: 26px } .wide { width: 3000px }
@media print { :root { color-scheme: light } .box { overflow: visible } .wide { width: auto } }
"""
SORT = """
for (const button of document.querySelectorAll("th button")) button.addEventListener("click", () => {
  const head = button.closest("th"), body = head.closest("table").tBodies[0];
  const down = head.ariaSort !== "descending", column = head.cellIndex;
  const value = (row) => Number(row.cells[column].dataset.value);
  const rows = [...body.rows].sort((a, b) => (value(a) - value(b)) * (down ? -1 : 1));
  body.append(...rows);
  for (const each of head.parentElement.cells) each.ariaSort = null;
  head.ariaSort = down ? "descending" : "ascending";
});
"""
TABLE = """
<table><thead><tr><th><button>Time</button></th></tr></thead><tbody>
<tr><td data-value="9">9 ms</td></tr><tr><td data-value="30">30 ms</td></tr>
<tr><td data-value="100">0.1 s</td></tr></tbody></table>
"""
SOUND = f"""
<h1>A report</h1><p>The kernel waits for memory, <a href="#why">and that is why</a> it is slow.</p>
{TABLE}
<div class="box" tabindex="0" role="region" aria-label="Wide"><p class="wide">A wide line</p></div>
<svg role="img" aria-label="A chart" width="90" height="30"><rect width="90" height="30" fill="#003"/>
<text x="5" y="20" fill="#fff">white</text></svg>
<h2>Evidence</h2><p style="height: 2000px">below</p>
<details><summary>More</summary><p id="why">It loads with a stride.</p></details>
"""


def write(
    path: Path, body: str, *, style: str = "", script: str = SORT, head: str = '<html lang="en">'
) -> Path:
    path.write_text(
        f'<!doctype html>{head}<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>A page</title><style>{STYLE}{style}</style>"
        f"<main>{body}</main><script>{script}</script>",
        encoding="utf-8",
    )
    return path


Find = Callable[..., list[str]]
Missed = Callable[..., list[tuple[str, list[str]]]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("checks") / "page.html", "")


@pytest.fixture
def find(shared: Opened, made: Path) -> Find:
    """What a check finds on a page with this body."""

    def found(
        check: Check, body: str, *, width: int = 1200, dark: bool = False, **parts: str
    ) -> list[str]:
        write(made, body, **parts)
        shared.again(width, dark=dark)
        return check(shared)

    return found


@pytest.fixture
def missed(find: Find) -> Missed:
    """Rows of bodies and the faults they have: those whose fault a check does not find, with what it
    finds instead."""

    def those_missed(
        check: Check, rows: list[tuple[str, str]], *, part: str = "body", **others: Any
    ) -> list[tuple[str, list[str]]]:
        results = [
            (text, said, find(check, **{"body": "", **others, part: text})) for text, said in rows
        ]
        return [(text, faults) for text, said, faults in results if said not in "\n".join(faults)]

    return those_missed


def test_faults_of_any_kind_are_found_in_one_visit(find: Find) -> None:
    def every(opened: Opened) -> list[str]:
        return checks.faults_at(opened, 1200, **checks.ACTING)

    body = '<h1>One</h1><h3>Three</h3><a href="#none">to nothing</a><p class="wide">x</p>'
    faults = find(every, body, script="throw new Error('oh')")
    assert [fault.split(": ")[1] for fault in faults] == [
        "sideways", "sideways", "structure", "links", "messages",
    ]  # fmt: skip


def test_a_sound_page_has_no_fault(browser: Browser, tmp_path: Path) -> None:
    assert checks.all_faults(browser, write(tmp_path / "page.html", SOUND)) == []


def test_messages(find: Find) -> None:
    policy = """<meta http-equiv="Content-Security-Policy" content="script-src 'unsafe-inline'; style-src 'none'">"""
    assert find(checks.message_faults, "x", script="console.log('fine')") == []
    assert find(checks.message_faults, "x", script="console.warn('careful')") == [
        "warning: careful"
    ]
    assert find(checks.message_faults, "x", script="none.such") == ["uncaught: none is not defined"]
    (said,) = find(checks.message_faults, "x", head=f'<html lang="en">{policy}')
    assert "violates the following Content Security Policy" in said


def test_requests(find: Find, made: Path) -> None:
    made.with_name("other.png").write_bytes(b"")
    inside = '<img alt="" src="data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA=">'
    assert find(checks.request_faults, inside) == []
    asked, written = find(checks.request_faults, '<img alt="" src="other.png">')
    assert asked.startswith("asks for file:///")
    assert asked.endswith("other.png")
    assert written == "<img> refers to other.png"
    ahead = find(checks.request_faults, '<link rel="preconnect" href="https://example.org">')
    assert ahead == ["<link> refers to https://example.org"]
    called = find(checks.request_faults, "x", script="fetch('https://example.org/').catch(() => 0)")
    assert called == ["asks for https://example.org/"]


def test_sideways(find: Find) -> None:
    wide = "<p class='wide' id='w'>wide</p>"
    assert find(checks.sideways_faults, wide, width=400) == [
        "the page is 3012 px wide in a window of 400 px",
        '<p id="w" class="wide"> "wide" reaches 3012 px',
    ]
    assert find(checks.sideways_faults, f"<div class='box'>{wide}</div>", width=400) == []


def test_links(find: Find, missed: Missed) -> None:
    down = '<p style="height: 3000px">far</p><p id="t">there</p>'
    bar = "<div style='position: sticky; top: 0; height: 60px; background: #fff' id='bar'>bar</div>"
    link = '<a href="#t">go</a>'
    rows = [
        ('<a href="#none">go</a>', '<a> "go" points to #none, which does not exist'),
        ('<p id="t">1</p><p id="t">2</p>', '2 elements have the id "t"'),
        ('<button data-copy="none">Copy</button>', 'data-copy of <button> "Copy" names "none"'),
        (f'{link}<div hidden><p id="t">there</p></div>', '<p id="t"> "there", stays hidden'),
        (f'{bar}{link}{down}{down[:28]}', 'is covered by <div id="bar"> "bar"'),
    ]  # fmt: skip
    assert missed(checks.link_faults, rows) == []
    stopped = "addEventListener('click', (event) => event.preventDefault())"
    (still,) = find(checks.link_faults, link + down, script=stopped)
    assert still.endswith('<p id="t"> "there", is not scrolled to')
    closed = f"<details><summary>More</summary>{down}</details>"
    assert (
        find(checks.link_faults, f"<details><summary>Less</summary>{link}</details>{closed}") == []
    )


def test_sorting(find: Find, missed: Missed) -> None:
    blurs = "document.querySelector('button').onclick = (event) => event.target.blur()"
    length = "row.cells[column].textContent.length"
    rows = [
        ("", "has aria-sort=None"),
        (SORT.replace("body.append(...rows)", ""), 'is not descending: "9" stands before "30"'),
        (SORT.replace("const down = ", "const down = true || "), "does not reverse the order"),
        (SORT.replace("(down ? -1 : 1)", "-1"), "sorted with Enter, is not ascending"),
        (SORT.replace("Number(row.cells[column].dataset.value)", length), "is not descending"),
        (SORT + blurs, "loses the focus"),
    ]
    assert missed(checks.sorting_faults, rows, part="script", body=TABLE) == []
    two = TABLE.replace("</th>", '</th><th aria-sort="ascending">Other</th>')
    keeps = SORT.replace("each.ariaSort = null", "0")
    assert "leaves aria-sort at" in find(checks.sorting_faults, two, script=keeps)[0]
    assert find(checks.sorting_faults, two) == []


def test_keyboard(find: Find, missed: Missed) -> None:
    rows = [
        ('<button tabindex="2">b</button>', "has a tabindex above 0"),
        ('<button tabindex="-1">b</button>', "cannot be reached by Tab"),
        ("<button style='outline: none'>b</button>", "looks the same with the focus"),
        ("<button style='outline: 2px solid #eee'>b</button>", "has a contrast of 1.16:1"),
        ("<div class='box'><p class='wide'>wide</p></div>", "scrolls, but has no tabindex"),
        ('<a href="#a">a</a><button onfocus="this.blur()">b</button>', "Tab goes to"),
        ("<button>b</button><p style='position: fixed; inset: 0; margin: 0; background: #fff'>over</p>", "covers it"),
    ]  # fmt: skip
    assert missed(checks.keyboard_faults, rows) == []
    shadow = "button { outline: none } button:focus-visible { box-shadow: 0 0 0 2px #00f }"
    assert find(checks.keyboard_faults, "<button>b</button>", style=shadow) == []


def test_contrast(find: Find, missed: Missed) -> None:
    grey = "<p style='color: #949494'>faint</p>"
    bar = "position: absolute; inset: 0; background: #222; pointer-events: none; z-index: -1"
    drawn = '<svg role="img" width="90" height="30"><rect width="90" height="30" fill="{}"/><text x="5" y="20" fill="#000">t</text></svg>'
    rows = [
        (grey, "#949494 on #ffffff: 3.03:1, less than 4.5:1"),
        ("<p style='opacity: .4'>faint</p>", "#999999 on #ffffff: 2.85:1"),
        ("<p style='background: #000'><b style='background: #fff8; color: #888'>x</b></p>", "on #888888: 1.00:1"),
        ("<p style='background: linear-gradient(90deg, #fff, #222)'>half</p>", "#000000 on #222222"),
        (f"<div style='position: relative; z-index: 0'><i style='{bar}'></i>over</div>", "#000000 on #222222"),
        (drawn.format("#333"), '<text> "t" is #000000 on #333333'),
        ("<style>p::after { content: 'late'; color: #ccc }</style><p>x</p>", "::after of <p>"),
        (f"<details><summary>More</summary>{grey}</details>", "#949494 on #ffffff"),
        ("<p style='color: color(srgb .8 .8 .8)'>x</p>", "#cccccc on #ffffff"),
    ]  # fmt: skip
    assert missed(checks.contrast_faults, rows) == []
    fine = grey.replace("style='", "style='font-size: 24px; ") + drawn.format("#fff")
    fine += "<p style='color: #767676'>just enough</p>"
    assert find(checks.contrast_faults, fine) == []
    only_light = "<p style='color: #333'>dark on dark</p>"
    assert find(checks.contrast_faults, only_light) == []
    assert "#333333 on #121212" in "".join(find(checks.contrast_faults, only_light, dark=True))


def test_without_script(browser: Browser, find: Find, made: Path) -> None:
    late = "document.querySelector('p').textContent = 'the answer'"
    for body, script, faults in (
        ("<p></p>", late, ['"the answer" is shown only with JavaScript']),
        ("<button>Copy</button>", "", ['<button> "Copy" is shown without JavaScript, and does nothing']),
        ("<p>the answer</p>", late, []),
    ):  # fmt: skip
        check = partial(checks.script_faults, find(checks.shown_texts, body, script=script))
        assert browser.visit(made, check, javascript=False) == faults


def test_print(missed: Missed) -> None:
    long = "<pre style='overflow: auto; width: 90px'>a very long line of code</pre>"
    rows = [
        ("<style>body { background: #123; color: #fff }</style>", "the background of <body> on paper is #112233"),
        ("<style>@media print { p { display: none } }</style><p>the answer</p>", '"the answer" is on the screen and not on paper'),
        (long, "scrolls, and paper cuts it off"),
        ("<p style='width: 2000px'>x</p>", "the page is 2012 px wide"),
        ("<style>@media print { p { color: #ddd } }</style><p>x</p>", "#dddddd on #ffffff"),
    ]  # fmt: skip
    assert missed(checks.print_faults, rows, width=checks.PAPER, dark=True) == []


def test_structure(find: Find, missed: Missed) -> None:
    rows = [
        ("<h1>a</h1><h1>b</h1>", "2 <h1> instead of one"),
        ("<h1>a</h1><h3>b</h3>", '<h3> "b" follows a heading of level 1'),
        ("<svg></svg>", '<svg> has neither role="img" nor aria-hidden'),
        ('<svg role="img"></svg>', "<svg> has no accessible name"),
        ("<table><tr><td>1</td></tr></table>", '<table> "1" has no <th>'),
        ("<button></button>", "<button> has no name"),
        ('<input placeholder="p">', "<input> has no label"),
        ('<div tabindex="0">x</div>', "has no role and name"),
        ("</main><main>", "2 <main> instead of one"),
    ]
    assert missed(checks.structure_faults, rows) == []
    assert "<html> has no lang" in find(checks.structure_faults, "x", head="")


def test_touch(find: Find) -> None:
    small = "button { min-height: 0; padding: 0; border: 0; font-size: 10px; width: 30px; height: 15px }"
    (fault,) = find(checks.touch_faults, "<button>b</button>", width=400, style=small)
    assert fault == '<button> "b" is 30.0 x 15.0 px, smaller than 24 x 24'
    assert find(checks.touch_faults, 'as <a href="#">this</a> says', width=400) == []
    assert find(checks.touch_faults, '<p><a href="#">s</a></p>', width=400) != []
