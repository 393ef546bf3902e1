"""Texts of reports, of a model and of the command line that attack a page: none of them runs, loads or
draws anything, and each is shown as the text that it is. And where the escaping failed, the page's
policy would still hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
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
ATTACKS = {
    "elements": f'<script>{RUN}</script>"><img src=x onerror="{RUN}"><svg onload={RUN}>',
    "ends": f"</title></pre></code></script></style></textarea></details></main><img src=x onerror={RUN}>",
    "comments": f"<!-- --><!--> --!> ]]> <![CDATA[ <?php {RUN} ?> <!doctype html>",
    "attributes": f'\' onfocus={RUN} autofocus x=\' " onmouseover="{RUN}" ` javascript:{RUN}',
    "templates": "{{constructor.constructor('" + RUN + "')()}} ${hacked} {%x%} #{hacked} <%= 1 %>",
    "entities": "&lt;script&gt; &amp;lt; &#60;img&#62; &NotAnEntity; &copy &quot;",
    "styles": "</style><style>*{display:none}</style> @import 'http://x.example'; url(http://x.example)",
    "characters": "a\x00b \u202elatot\u202c \u2066x\u2069 \ud800 \udfff \x1b[31m \x85 \u2028 \ufeff \r end",
    "links": "<a href=javascript:alert(1)>x</a> http://x.example <base href=//x.example> <link rel=stylesheet>",
    "long": "W" * 10_000,
}
FILES = {
    "elements": b"<b>\"'.c",
    "ends": b"<p>x.cu",
    "comments": b"<!--.cu",
    "entities": b"&lt;.cu",
}
"""As long as the name that they replace."""
MADE_BY_SCRIPT = {"input", "textarea", "select", "option", "dialog", "kbd"}
OF_THE_PAGE = {"html", "head", "body", "meta", "link", "title", "style", "script"}
HEAD = {"charset", "http-equiv", "content", "name", "rel"}
SCRIPTS_OWN = {"placeholder", "style", "stroke-width"}
"""`style` of the tooltip, which the script places, and of machine code, which it indents;
`stroke-width` of the hatching of memory charts."""


def shown(attack: str) -> str:
    """A piece of the attack without what is escaped or folded on the page: enough to recognise it."""
    return attack[:10].strip() if attack.isprintable() else "latot"


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("compiling", "edit_placer"):
        monkeypatch.setattr(f"keet.agent.edits.{module}.find_nvcc", lambda: None)


def hostile_report(folder: Path, kind: str) -> Path:
    attack = ATTACKS[kind]
    real = unpacked(REPORTS / "tour_lines.ncu-repz")
    nvtx = nvtx_of(unpacked(REPORTS / "nvtx.ncu-repz"))
    named = folder / "".join(c for c in attack[:60] if c.isprintable() and c != "/")
    named.mkdir()
    report = named / "r<b>'\".ncu-rep"
    file = FILES.get(kind, b"tour.cu")
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
    dialogs: list[str] = []

    def dismissed(dialog: Any) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    opened.page.on("dialog", dismissed)
    opened.again(400)
    opened.probe("openDetails")
    opened.page.mouse.move(200, 300)
    opened.page.keyboard.press("Tab")
    opened.page.evaluate("new Promise((done) => setTimeout(done, 50))")
    yield from opened.probe("sideways")
    found = opened.page.evaluate(INVENTORY)
    yield from (f"a dialog says {message}" for message in dialogs)
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


def faults_and_text(browser: Browser, page: Path) -> tuple[list[str], str]:
    def looking(opened: Opened) -> tuple[list[str], str]:
        faults = list(hostile_faults(opened))
        return faults, str(opened.page.text_content("main"))

    return browser.visit(page, looking)


# --- reports


@pytest.mark.parametrize("kind", ATTACKS)
def test_names_sources_rules_ranges_and_paths(browser: Browser, tmp_path: Path, kind: str) -> None:
    report = hostile_report(tmp_path, kind)
    page = written(tmp_path, "explain", "--no-model", "--all", report)
    faults, text = faults_and_text(browser, page)
    assert faults == []
    # In the kernel's name, on every line of the sources, in every rule, in ncu's command line.
    assert text.count(shown(ATTACKS[kind])) > 20
    if kind in FILES:
        assert FILES[kind].decode() in text
    assert "r<b>'\".ncu-rep" in text


@pytest.mark.parametrize("kind", ["elements", "ends", "characters", "long"])
def test_a_difference_of_such_reports(browser: Browser, tmp_path: Path, kind: str) -> None:
    report = hostile_report(tmp_path, kind)
    page = written(tmp_path, "diff", REPORTS / "tour_lines.ncu-repz", report, "--force")
    faults, text = faults_and_text(browser, page)
    assert faults == []
    assert shown(ATTACKS[kind]) in text


@pytest.mark.parametrize("kind", ["elements", "ends", "templates", "long"])
def test_insights_of_such_names(browser: Browser, tmp_path: Path, kind: str) -> None:
    attack = ATTACKS[kind]
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
    faults, text = faults_and_text(browser, written(tmp_path, "insights", "--no-model", store))
    assert faults == []
    assert shown(attack) in text


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


@pytest.mark.parametrize("kind", [kind for kind in ATTACKS if kind != "long"])
def test_words_and_patches_of_a_model(browser: Browser, tmp_path: Path, kind: str) -> None:
    attack = ATTACKS[kind]
    model = f"scripted:{hostile_script(tmp_path, attack)}"
    report = SAMPLES / "score_tiles" / "slow.ncu-repz"
    page = written(tmp_path, "explain", report, "--model", model)
    faults, text = faults_and_text(browser, page)
    assert faults == []
    assert shown(attack) in text


def test_a_models_name_and_fault(browser: Browser, tmp_path: Path) -> None:
    folder = tmp_path / ATTACKS["elements"].replace("/", "")[:100]
    folder.mkdir()
    (folder / "script.jsonl").write_text('{"fault": "server"}\n')
    page = tmp_path / "page.html"
    report = SAMPLES / "score_tiles" / "slow.ncu-repz"
    words = ["explain", report, "--model", f"scripted:{folder}/script.jsonl", "--format", "html"]
    assert main([*map(str, words), "-o", str(page)]) == 3
    faults, text = faults_and_text(browser, page)
    assert faults == []
    assert "The model's part is missing" in text


# --- the second wall: a page into which markup was put by hand

INJECTED = {
    "a script": "<script>window.hacked = 1</script>",
    "a handler": '<img src="data:," onerror="window.hacked = 1">',
    "a handler of SVG": '<svg onload="window.hacked = 1"></svg>',
    "a script address": '<a id="go" href="javascript:window.hacked = 1">go</a>',
    "a frame": "<iframe srcdoc='<script>parent.hacked = 1</script>'></iframe>",
    "a script from elsewhere": '<script src="https://keet.example/x.js"></script>',
    "a picture from elsewhere": '<img src="https://keet.example/x.png">',
    "a style from elsewhere": '<link rel="stylesheet" href="https://keet.example/x.css">',
    "a font": "<style>@font-face { font-family: f; src: url(https://keet.example/f) } p { font-family: f }</style>",
    "a style": "<style>main { display: none }</style>",
    "a style attribute": '<p id="styled" style="position: fixed; inset: 0">over everything</p>',
    "a form": '<form action="https://keet.example/" id="form"><input name="a"></form>',
    "a base": '<base href="https://keet.example/">',
    "an object": '<object type="text/html" data="https://keet.example/x.html"></object>',
}
TRIES = """() => {
  document.getElementById("go")?.click();
  return new Promise((done) => setTimeout(done, 100));
}"""
LEAVE = """() => { setTimeout(() => document.getElementById("form")?.requestSubmit(), 0); }"""
HELD = """() => ({
  hacked: window.hacked ?? null,
  hidden: getComputedStyle(document.querySelector("main")).display === "none",
  styled: getComputedStyle(document.getElementById("styled") ?? document.body).position === "fixed",
  base: document.baseURI.startsWith("https://keet.example"),
})"""


def broken(opened: Opened) -> list[str]:
    """What injected markup achieved."""
    reached: list[str] = []

    def refused(route: Any) -> None:
        reached.append(route.request.url)
        route.abort()

    opened.page.context.route("https://keet.example/**", refused)
    opened.load()
    opened.page.evaluate(TRIES)
    held = opened.page.evaluate(HELD)
    opened.page.evaluate(LEAVE)
    opened.page.wait_for_timeout(100)
    return [*(key for key, value in held.items() if value), *reached]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> str:
    return one_launch(tmp_path_factory.mktemp("sound")).read_text(encoding="utf-8")


@pytest.fixture
def achieved(browser: Browser, tmp_path: Path) -> Callable[[str, str], list[str]]:
    def inject(text: str, markup: str) -> list[str]:
        page = tmp_path / "page.html"
        place = text.index("</main>")
        page.write_text(text[:place] + markup + text[place:], encoding="utf-8")
        return browser.visit(page, broken)

    return inject


def test_the_policy_refuses_what_was_put_in(
    achieved: Callable[[str, str], list[str]], sound: str
) -> None:
    assert {what: achieved(sound, markup) for what, markup in INJECTED.items()} == {
        what: [] for what in INJECTED
    }


def test_without_the_policy_each_of_them_would_work(
    achieved: Callable[[str, str], list[str]], sound: str
) -> None:
    """So that the test above can fail."""
    start = sound.index('<meta http-equiv="Content-Security-Policy"')
    bare = sound[:start] + sound[sound.index(">", start) + 1 :]
    idle = [what for what, markup in INJECTED.items() if not achieved(bare, markup)]
    assert idle == []
