"""Checks of an open page. Each returns its faults in words, so that all of them can be printed.

`all_faults` runs every check at every width. The order within a visit matters: what only looks
comes first, then what scrolls, opens and sorts.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.browser.driver import HEIGHT, Browser, Opened

Check = Callable[[Opened], list[str]]

WIDTHS = (400, 1200, 1920)
"""CSS pixels: a phone, a laptop, a desktop."""
PAPER = 718  # CSS pixels: A4 with margins of 10 mm
TARGET = 24  # CSS pixels: WCAG 2.2, 2.5.8
MOST_LINKS = 24  # targets that are tried, spread over the page: each takes some frames
MOST_TABS = 48  # presses: a long page repeats what its first part has


def message_faults(opened: Opened) -> list[str]:
    """Console errors and warnings, violations of the content policy, uncaught exceptions."""
    return list(opened.messages)


def request_faults(opened: Opened) -> list[str]:
    """Any request besides the page itself and `data:`, and anything that could make one later."""
    asked = [f"asks for {url[:120]}" for url in opened.requests if not url.startswith("data:")]
    return asked + opened.probe("outwardLinks")


def sideways_faults(opened: Opened) -> list[str]:
    """The page scrolls sideways. A box inside it may."""
    return opened.probe("sideways")


def structure_faults(opened: Opened) -> list[str]:
    """Headings, names and roles that a screen reader uses."""
    return opened.probe("structureFaults")


def contrast_faults(opened: Opened) -> list[str]:
    """Text with too little contrast, including closed parts."""
    opened.probe("openDetails")
    return opened.probe("contrastFaults")


def touch_faults(opened: Opened) -> list[str]:
    """Targets that are too small for a finger. Links within a text and marks of a chart are
    exempt."""
    return opened.probe("smallTargets", TARGET)


def link_faults(opened: Opened, most: int = MOST_LINKS) -> list[str]:
    """Duplicate ids, broken links, and targets that a click does not show."""
    return opened.probe("idFaults") + opened.probe("linkFaults", most)


def keyboard_faults(opened: Opened, most: int = MOST_TABS) -> list[str]:
    """Elements that Tab does not reach in the order of the page, or without a visible focus."""
    start = opened.probe("startTabbing")
    faults, at = list(start["faults"]), 0
    for _ in range(2 * most):  # twice: Chromium stops at boxes that scroll, too
        if at >= min(start["count"], most):
            break
        opened.page.keyboard.press("Tab")
        now = opened.probe("tabbed", at)
        faults += now["faults"]
        if now["scroller"]:
            continue
        if now["at"] != at:
            return [*faults, f"Tab goes to {now['name']} instead of {now['expected']}"]
        at += 1
    return faults


def sorting_faults(opened: Opened) -> list[str]:
    """Headers with a button that do not sort their table, both ways, by mouse and keyboard."""
    places = opened.probe("sortableHeaders")
    return [fault for place in places for fault in _sort_faults(opened, place)]


def _sort_faults(opened: Opened, place: list[int]) -> list[str]:
    opened.probe("clickSort", place)
    once = opened.probe("sortState", place)
    opened.probe("focusSort", place)
    opened.page.keyboard.press("Enter")
    twice = opened.probe("sortState", place)
    faults = _state_faults(once, "clicked") + _state_faults(twice, "sorted with Enter")
    if once["sort"] == twice["sort"]:
        faults.append(f"{once['name']}: the second time does not reverse the order")
    if not twice["focused"]:
        faults.append(f"{once['name']} loses the focus when it sorts")
    return faults


def _state_faults(state: dict[str, Any], how: str) -> list[str]:
    name = f"{state['name']}, {how},"
    if state["sort"] not in ("ascending", "descending"):
        return [f"{name} has aria-sort={state['sort']!r}"]
    faults = [f"{name} leaves aria-sort at {other}" for other in state["others"]]
    if state["wrong"]:
        faults.append(f"{name} is not {state['sort']}: {state['wrong']}")
    return faults


def print_faults(opened: Opened) -> list[str]:
    """Printed pages that are dark, faint, cut off, or lack what the screen shows without a
    click."""
    on_screen = opened.probe("shownTexts")
    opened.page.emulate_media(media="print")
    opened.probe("beforePrint")
    on_paper = opened.probe("shownTexts")
    faults = opened.probe("paperColours") + opened.probe("sideways") + opened.probe("cutOff")
    faults += _missing(on_screen, on_paper, "is on the screen and not on paper")
    faults += opened.probe("contrastFaults")
    if not opened.page.pdf(format="A4").startswith(b"%PDF"):
        faults.append("printing gives no PDF")
    return faults


def script_faults(shown_with: list[str], opened: Opened) -> list[str]:
    """For a page opened without JavaScript: what is seen only with it, and buttons that do nothing
    without it."""
    faults = _missing(shown_with, shown_texts(opened), "is shown only with JavaScript")
    dead = opened.probe("shownButtons")
    return faults + [f"{name} is shown without JavaScript, and does nothing" for name in dead]


def shown_texts(opened: Opened) -> list[str]:
    """Text that is visible without a click, except that of controls."""
    return opened.probe("shownTexts")


def _missing(wanted: Iterable[str], there: Iterable[str], what: str) -> list[str]:
    known = " ".join(there)  # a script may split a text into several
    missing = [text for text in dict.fromkeys(wanted) if text not in known]
    return [f'"{text[:60]}" {what}' for text in missing]


LOOKING: dict[str, Check] = {
    "requests": request_faults,
    "sideways": sideways_faults,
    "structure": structure_faults,
}
ACTING: dict[str, Check] = {"keyboard": keyboard_faults, "links": link_faults}


def faults_at(opened: Opened, width: int, **more: Check) -> list[str]:
    """Faults of the page in a window of this width, except for colours, which do not depend on it."""
    checks = LOOKING | ({"touch": touch_faults} if width < PAPER else {}) | more
    checks["messages"] = message_faults  # last: what the others did may have made the page complain
    return [f"{width} px: {fault}" for fault in _run(opened, checks)]


def all_faults(browser: Browser, path: Path, widths: Sequence[int] = WIDTHS) -> list[str]:
    """All faults of the page. Interactions are tested at the narrowest and the widest width."""
    narrow, wide = min(widths), max(widths)
    others = [width for width in widths if width not in (narrow, wide)]

    def scripted(opened: Opened) -> tuple[list[str], list[str]]:
        shown, faults = shown_texts(opened), list[str]()
        for width in others:  # without a load, because nothing has been opened yet
            opened.page.set_viewport_size({"width": width, "height": HEIGHT})
            faults += faults_at(opened, width)
        opened.again(narrow)
        faults += faults_at(opened, narrow, **ACTING, sorting=sorting_faults)
        opened.again(wide)
        faults += faults_at(opened, wide, **ACTING) + _run(opened, {"light": contrast_faults})
        opened.page.emulate_media(color_scheme="dark")
        faults += _run(opened, {"dark": contrast_faults})
        opened.again(PAPER, dark=True)
        return shown, faults + _run(opened, {"print": print_faults})

    shown, faults = browser.visit(path, scripted)
    bare = {"without JavaScript": partial(script_faults, shown)}
    return faults + browser.visit(path, lambda opened: _run(opened, bare), javascript=False)


def _run(opened: Opened, checks: Mapping[str, Check]) -> list[str]:
    return [f"{name}: {fault}" for name, check in checks.items() for fault in check(opened)]
