"""The page around what a command prints: one file with its style and script inside.

The policy in its head allows nothing but this style and this script, which it names by hash: no
address is loaded, no other script runs, and no form or frame works, whatever a report contains.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

from keet.formats.html.markup import Content, Html, element, escaped, fragment
from keet.safe_text import visible
from keet.version import __version__

STYLES = ("base", "answer", "charts", "source", "diff", "insights", "print")
"""Files of style in the order in which they apply."""
SCRIPTS = ("source", "page")
"""In the order in which they run: ids that `source` adds to lines can be linked to by `page`."""
_ASSETS = Path(__file__).with_name("assets")


def page(title: str, top: Content, *body: Content, footer: Sequence[Content] = ()) -> str:
    """A whole HTML document. `title`: what browsers show in tabs and histories. `top`: its bar."""
    style, script = _assets(STYLES, "css"), _assets(SCRIPTS, "js")
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    head = (
        '<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escaped(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f'<meta name="generator" content="keet {escaped(__version__)}">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escaped(visible(title))}</title>\n"
        f"<style>{style}</style>\n"
    )
    whole = fragment(
        element("a", "Skip to the answer", class_="skip", href="#main"),
        top,
        element("main", *body, id="main", tabindex="-1"),
        element("footer", *footer, class_="page-foot"),
    )
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n{head}</head>\n'
        f"<body>\n{visible(whole)}\n<script>{script}</script>\n</body>\n</html>\n"
    )


def bar(name: str, links: Sequence[tuple[str, str]], *tools: Content) -> Html:
    """The bar that stays visible: the name of the page, links to its parts, buttons."""
    return element(
        "header",
        element("span", f"keet: {name}", class_="name"),
        element(
            "nav",
            [element("a", words, href=f"#{target}") for target, words in links],
            aria_label="Parts of the page",
            tabindex="0",
        ),
        element("span", tools, data_toolbar=True),
        class_="bar",
    )


def _hash(text: str) -> str:
    digest = sha256(text.encode()).digest()
    return f"'sha256-{b2a_base64(digest, newline=False).decode()}'"


@cache
def _assets(names: Sequence[str], kind: str) -> str:
    """ASCII without an end tag, so that neither escaping nor a parser changes it."""
    files = [(_ASSETS / f"{name}.{kind}").read_bytes().decode("ascii") for name in names]
    if any("</" in text for text in files):
        raise ValueError(f"a file of {kind} holds an end tag, which would end its element")
    return "\n" + "".join(files)
