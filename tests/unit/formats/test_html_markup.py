"""Markup is escaped by construction; and the page around it."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.formats.html.blocks import STYLES, page
from keet.formats.html.markup import ELEMENTS, Html, element, fragment, joined, prose
from tests.page_parts import page_tree
from tests.rows import each_row

ATTACKS = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "&lt;", "</pre><h1>"]
ANY_TEXT = st.text(max_size=60) | st.sampled_from([*ATTACKS, "]]>", "'"])


def parsed(markup: str) -> tuple[str, dict[str, str], str]:
    """Tag, attributes and text of the only element."""
    (found,) = page_tree(markup)
    assert len(found) == 0
    return found.tag, found.attrib, found.text or ""


@given(ANY_TEXT)
def test_text_stays_text(text: str) -> None:
    """Also in an attribute, and markup that was formatted: `f"{html}{text}"` is a mistake, and its
    result is escaped, so that the text is not markup."""
    assert parsed(element("p", text)) == ("p", {}, text)
    attributes = {"title": text, "data-value": text}
    assert parsed(element("p", title=text, data_value=text)) == ("p", attributes, "")
    inner = element("b", "bold")
    for mistake in (f"{inner}{text}", inner + text, "".join([inner, text])):
        assert parsed(element("p", mistake)) == ("p", {}, mistake)


def test_pieces_and_attributes() -> None:
    pieces = [element("b", "a"), "<c>", None, ["d", ["e"]]]
    assert fragment(pieces) == "<b>a</b>&lt;c&gt;de"
    assert joined(["a", element("i", "b")], " & ") == "a &amp; <i>b</i>"
    assert type(fragment(pieces)) is type(joined(pieces, "")) is Html
    assert element("details", open=True, hidden=False, id=None) == "<details open></details>"
    assert element("rect", width=1 / 3, x="5%") == '<rect width="0.3333" x="5%"></rect>'
    assert element("td", data_value=123456.789) == '<td data-value="123456.789"></td>'
    # Parsers turn CR LF into LF, and a copied patch would not apply.
    assert element("pre", "-a\r\n+b\r\n") == "<pre>-a&#13;\n+b&#13;\n</pre>"


def test_markup_that_could_run_or_load_something_is_refused() -> None:
    for name in ("script", "style", "iframe", "img", "object", "form", "base", "meta", "link"):
        assert name not in ELEMENTS
        with pytest.raises(ValueError, match="not an element"):
            element(name)
    for attribute in ("onclick", "style", "src", "srcdoc", "action", "formaction", "ping"):
        with pytest.raises(ValueError, match="not an attribute"):
            element("p", **{attribute: "x"})
    for address in ("https://example.com", "javascript:alert(1)", "data:text/html,x", "x.html"):
        with pytest.raises(ValueError, match="stay on the page"):
            element("a", "x", href=address)


def test_the_page_has_its_style_and_policy_and_visible_control_characters() -> None:
    text = page("A title </title><script>", None, element("h1", "Hello"))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy
    rules = dict(rule.strip().split(" ", 1) for rule in policy[1].replace("&#39;", "'").split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for directive, tag in (("style-src", "style"), ("script-src", "script")):
        [content] = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = b64encode(sha256(content.encode()).digest()).decode()
        assert rules[directive] == f"'sha256-{digest}'"
    assert "A title &lt;/title&gt;&lt;script&gt;</title>" in text
    import keet.formats.html.blocks as module

    stored = {path.stem for path in module._ASSETS.glob("*.css")}
    assert stored == set(STYLES)
    text = page("a\u202eb", None, element("p", "c\x1b[2Jd\u2028e"))
    assert not {"\u202e", "\x1b", "\u2028"}.intersection(text)
    assert "a\\u202eb" in text
    assert "c\\u001b[2Jd\\u2028e" in text


@each_row(
    ("text", "options"),
    [
        ("a debug build (-G): build without -G", ["-G", "-G"]),
        ("ncu --section SourceCounters --import-source yes", ["--section", "--import-source"]),
        ("-11% of a two-step run, a - b, `x --y`", []),
    ],
)
def test_options_are_not_broken_behind_their_hyphens(text: str, options: list[str]) -> None:
    assert re.findall('<span class="unbroken">(.*?)</span>', prose(text)) == options
