"""Texts of reports, of a model and of the command line that attack a page: none of them runs, loads or
draws anything, and each is shown as the text that it is. And where the escaping failed, the page's
policy would still hold."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keet.cli import main
from keet.formats.html.markup import ATTRIBUTES, ELEMENTS
from tests.browser.driver import Browser, Opened
from tests.browser.sample_pages import SAMPLES, one_launch, written
from tests.conftest import REPORTS
from tests.hostile_reports import attacked, nvtx_of
from tests.insights_sets import finding, launch, make_set
from tests.kept_reports import unpacked

pytestmark = pytest.mark.slow

RUN = "window.hacked=1;document.title='hacked';alert(1)"
QUOTES = (
    f'\' onfocus={RUN} autofocus x=\' " onmouseover="{RUN}" ` javascript:{RUN}'
    f'<script>{RUN}</script>"><img src=x onerror="{RUN}"><svg onload={RUN}>'
    "</style><style>*{display:none}</style> @import 'http://x.example'; url(http://x.example)"
)
ENDS = (
    f"</title></pre></code></script></style></textarea></details></main><img src=x onerror={RUN}>"
    f"<!-- --><!--> --!> ]]> <![CDATA[ <?php {RUN} ?> <!doctype html>"
    "&lt;script&gt; &amp;lt; &#60;img&#62; &NotAnEntity; &copy &quot;"
)
CHARACTERS = (
    "a\x00b \u202elatot\u202c \u2066x\u2069 \ud800 \udfff \x1b[31m \x85 \u2028 \ufeff \r end"
    "{{constructor.constructor('" + RUN + "')()}} ${hacked} {%x%} #{hacked} <%= 1 %>"
    "<a href=javascript:alert(1)>x</a> http://x.example <base href=//x.example> <link rel=stylesheet>"
)
LONG = "W" * 10_000
ATTACKS = {QUOTES: "' onfocus=", ENDS: "</title></", CHARACTERS: "latot", LONG: "WWWWWWWWWW"}
"""With a piece that is neither escaped nor folded on the page: enough to recognise it."""
EVERY = QUOTES + ENDS + CHARACTERS
FILES = {QUOTES: b"<b>\"'.c", ENDS: b"<p>x.cu", CHARACTERS: b"<!--.cu", EVERY: b"&lt;.cu"}
"""As long as the name that they replace."""
MADE_BY_SCRIPT = {"input", "textarea", "select", "option", "dialog", "kbd"}
OF_THE_PAGE = {"html", "head", "body", "meta", "link", "title", "style", "script"}
HEAD = {"charset", "http-equiv", "content", "name", "rel"}
SCRIPTS_OWN = {"placeholder", "style", "stroke-width"}
"""`style` of the tooltip, which the script places, and of machine code, which it indents;
`stroke-width` of the hatching of memory charts."""


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("compiling", "line_matching"):
        monkeypatch.setattr(f"keet.agent.edits.{module}.find_nvcc", lambda: None)


def hostile_report(folder: Path, attack: str) -> Path:
    real = unpacked(REPORTS / "tour_lines.ncu-repz")
    nvtx = nvtx_of(unpacked(REPORTS / "nvtx.ncu-repz"))
    named = folder / "".join(c for c in attack[:60] if c.isprintable() and c != "/")
    named.mkdir()
    report = named / "r<b>'\".ncu-rep"
    file = FILES.get(attack, b"tour.cu")
    report.write_bytes(attacked(real, nvtx, attack, name=f"k{attack}", file=file))
    return report


# --- what is asked of every page

INVENTORY = """() => {
  const comments = document.createTreeWalker(document, NodeFilter.SHOW_COMMENT);
  const seen = {}, links = [];
  for (const each of document.querySelectorAll("*")) {
    const names = (seen[each.localName] ||= {});
    for (const { name } of each.attributes) names[name] = 1;
    if (each.localName === "a") links.push(each.getAttribute("href"));
  }
  return {
    elements: Object.fromEntries(Object.entries(seen).map(([key, names]) => [key, Object.keys(names)])),
    comment: comments.nextNode() && comments.currentNode.data,
    links: links.filter((each) => !each?.startsWith("#")),
    once: ["script", "style", "title", "link", "main", "html", "body"].map((name) =>
      [name, document.querySelectorAll(`${name}:not(svg *)`).length]).filter(([, count]) => count !== 1),
    hacked: [window.hacked, document.title === "hacked"],
    styled: [...document.querySelectorAll("[style]")].filter((each) => !each.matches(".tip, .sass")).length,
    visible: document.querySelector("main").innerText.length,
  };
}"""


def hostile_faults(opened: Opened) -> Iterator[str]:
    """Of a page at 400 pixels, after everything that can be pointed at or opened was."""
    opened.probe("openDetails")
    opened.page.mouse.move(200, 300)
    opened.page.keyboard.press("Tab")
    opened.page.evaluate("new Promise((done) => setTimeout(done, 50))")
    yield from opened.probe("sideways")
    found = opened.page.evaluate(INVENTORY)
    yield from opened.messages
    yield from (f"asks for {url}" for url in opened.requests if not url.startswith("data:"))
    yield from _inventory_faults(found)


def _inventory_faults(found: dict[str, Any]) -> Iterator[str]:
    if found["hacked"] != [None, False]:
        yield "a script of the report ran"
    for name, attributes in found["elements"].items():
        if name not in ELEMENTS | OF_THE_PAGE | MADE_BY_SCRIPT:
            yield f"an element <{name}>"
        known = ATTRIBUTES | SCRIPTS_OWN | (HEAD if name in ("meta", "link") else set())
        strange = [a for a in attributes if a not in known and not a.startswith(("data-", "aria-"))]
        if strange:
            yield f"<{name}> has {strange}"
    for key in ("comment", "links", "once", "styled"):
        if found[key]:
            yield f"{key}: {found[key]}"
    if found["visible"] < 500:
        yield "the page is empty"


def text_without_faults(browser: Browser, page: Path) -> str:
    def looking(opened: Opened) -> str:
        assert list(hostile_faults(opened)) == []
        return str(opened.page.text_content("main"))

    return browser.visit(page, looking, width=400)


# --- reports


@pytest.mark.parametrize("attack", ATTACKS, ids=ATTACKS.values())
def test_names_sources_rules_ranges_and_paths(
    browser: Browser, tmp_path: Path, attack: str
) -> None:
    report = hostile_report(tmp_path, attack)
    page = written(tmp_path, "explain", "--no-model", "--all", report)
    text = text_without_faults(browser, page)
    # In the kernel's name, on every line of the sources, in every rule, in ncu's command line.
    assert text.count(ATTACKS[attack]) > 20
    assert FILES.get(attack, b"tour.cu").decode() in text
    assert "r<b>'\".ncu-rep" in text


@pytest.mark.parametrize("attack", [EVERY, LONG], ids=["every", "long"])
def test_a_difference_of_such_reports_and_insights_of_such_names(
    browser: Browser, tmp_path: Path, attack: str
) -> None:
    report = hostile_report(tmp_path, attack)
    page = written(tmp_path, "diff", REPORTS / "tour_lines.ncu-repz", report, "--force")
    assert attack[:10] in text_without_faults(browser, page)
    rows = [
        launch(
            f"{attack[:100]}/BLOCK_{block}.ncu-rep",
            kernel=f"k{attack}",
            kernel_full=f"k{attack}(float *)",
            device=f"GPU {attack}",
            command_line=f"ncu ./app {attack}",
            duration_us=100.0 + block,
            block=(block, 1, 1),
            limiter="DRAM" if block < 256 else "L2",
        )
        for block in (64, 128, 256, 512)
    ]
    store = make_set(tmp_path / "store", rows, [finding(rows[0], f"f{attack}", 1.5)])
    page = written(tmp_path, "insights", "--no-model", store)
    assert attack[:10] in text_without_faults(browser, page)


# --- what a model says


def attacked_answer(answer: Any, attack: str) -> Any:
    """Its sentences and its code with the attack behind them; names that keet looks up stay."""
    spoken = {"purpose", "mapping", "text", "summary", "reason", "what", "risk", "check"}
    if isinstance(answer, list):
        return [attacked_answer(each, attack) for each in answer]
    if not isinstance(answer, dict):
        return answer
    changed = {}
    for key, value in answer.items():
        if key in spoken and isinstance(value, str):
            changed[key] = f"{value} So `{attack}` and {attack} say."
        elif key == "new":
            changed[key] = f"{value}  // {attack}"
        else:
            changed[key] = attacked_answer(value, attack)
    return changed


def hostile_script(folder: Path, attack: str) -> Path:
    lines = Path("tests/transcripts/score_tiles.jsonl").read_text(encoding="utf-8").splitlines()
    replies = [each["text"] for each in map(json.loads, lines) if each["event"] == "reply"]
    said = [{"content": json.dumps(attacked_answer(json.loads(text), attack))} for text in replies]
    script = folder / "script.jsonl"
    corrected = {"content": json.dumps({"corrections": []})}
    script.write_text("".join(json.dumps(line) + "\n" for line in [*said, *[corrected] * 3]))
    return script


def test_words_and_patches_of_a_model(browser: Browser, tmp_path: Path) -> None:
    model = f"scripted:{hostile_script(tmp_path, EVERY)}"
    report = SAMPLES / "score_tiles" / "slow.ncu-repz"
    page = written(tmp_path, "explain", report, "--model", model)
    text = text_without_faults(browser, page)
    assert all(ATTACKS[attack] in text for attack in (QUOTES, ENDS, CHARACTERS))


def test_a_models_name_and_fault(browser: Browser, tmp_path: Path) -> None:
    folder = tmp_path / QUOTES.replace("/", "")[:200]
    folder.mkdir()
    (folder / "script.jsonl").write_text('{"fault": "server"}\n')
    page = tmp_path / "page.html"
    report = SAMPLES / "score_tiles" / "slow.ncu-repz"
    words = ["explain", report, "--model", f"scripted:{folder}/script.jsonl", "--format", "html"]
    assert main([*map(str, words), "-o", str(page)]) == 3
    assert "The model's part is missing" in text_without_faults(browser, page)


# --- the second wall: a page into which markup was put by hand

RUNS = "(window.hacked ||= []).push('{}')"
INJECTED = {
    "a script": f"<script>{RUNS}</script>",
    "a handler": f'<img src="data:," onerror="{RUNS}">',
    "a handler of SVG": f'<svg onload="{RUNS}"></svg>',
    "a script address": f'<a id="go" href="javascript:{RUNS}">go</a>',
    "a frame": f'<iframe srcdoc="<script>{RUNS.replace("window", "parent")}</script>"></iframe>',
    "a style": "<style>h1 { display: none }</style>",
    "a style attribute": '<p id="styled" style="position: fixed; inset: 0">over everything</p>',
    "a base": '<base href="https://keet.example/">',
    "a script from elsewhere": '<script src="https://keet.example/js"></script>',
    "a picture from elsewhere": '<img src="https://keet.example/png">',
    "a style from elsewhere": '<link rel="stylesheet" href="https://keet.example/css">',
    "a font": "<style>@font-face { font-family: f; src: url(https://keet.example/font) } p { font-family: f }</style>",
    "an object": '<object type="text/html" data="https://keet.example/object"></object>',
    "a form": '<form action="https://keet.example/form" id="form"><input name="a"></form>',
}
TRIES = """() => {
  document.getElementById("go")?.click();
  return new Promise((done) => setTimeout(done, 100));
}"""
LEAVE = """() => { setTimeout(() => document.getElementById("form")?.requestSubmit(), 0); }"""
HELD = """() => [
  ...window.hacked ?? [],
  getComputedStyle(document.querySelector("h1")).display === "none" && "a style",
  getComputedStyle(document.getElementById("styled")).position === "fixed" && "a style attribute",
  document.baseURI.startsWith("https://keet.example") && "a base",
].filter(Boolean)"""
ASKS = {"js": "a script from elsewhere", "png": "a picture from elsewhere", "css": "a style from elsewhere",
        "font": "a font", "object": "an object", "form": "a form"}  # fmt: skip


def broken(opened: Opened) -> set[str]:
    """Which injected markup achieved something."""
    reached: list[str] = []

    def refused(route: Any) -> None:
        reached.append(ASKS[route.request.url.rpartition("/")[2].partition("?")[0]])
        route.abort()

    opened.page.context.route("https://keet.example/**", refused)
    opened.load()
    opened.page.evaluate(TRIES)
    held = opened.page.evaluate(HELD)
    opened.page.evaluate(LEAVE)
    opened.page.wait_for_timeout(100)
    return {*held, *reached}


def test_the_policy_refuses_what_was_put_in(browser: Browser, tmp_path: Path) -> None:
    """And without the policy each of them would work."""
    page = one_launch(tmp_path)
    sound = page.read_text(encoding="utf-8")
    markup = "".join(text.replace("{}", name) for name, text in INJECTED.items())
    place = sound.index("</main>")
    injected = sound[:place] + markup + sound[place:]
    start = injected.index('<meta http-equiv="Content-Security-Policy"')
    bare = injected[:start] + injected[injected.index(">", start) + 1 :]
    for text, achieved in ((injected, set()), (bare, set(INJECTED))):
        page.write_text(text, encoding="utf-8")
        assert browser.visit(page, broken) == achieved
