"""Sphinx's settings for the documentation site (`make site`). Why Sphinx: decisions/0031-sphinx.md.

The source folder is the repository, so that pages can link to any of its files as on GitHub.
"""

import re

from docutils import nodes
from docutils.nodes import document
from pygments.lexers.shell import BashSessionLexer
from sphinx.application import Sphinx

project = "keet"
html_title = "keet"
extensions = ["myst_parser", "sphinx_copybutton"]
root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "examples/README.md",
    "kernels_samples/README.md",
    "kernels_samples/casebook/*.md",
    "evals/results/*.md",
    "evals/optimize/programs/README.md",
    "evals/skill_trial/README.md",
]
exclude_patterns = [".*", "site", "keet", "tests"]  # not searched for pages
smartquotes = False  # `--model` is an option, not a dash
html_theme = "furo"
html_extra_path = ["redirect"]  # index.html at the top of the site
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_use_index = False
pygments_style, pygments_dark_style = "friendly", "github-dark"
myst_heading_anchors = 4  # the same anchors as on GitHub
copybutton_prompt_text = "$ "  # of a session, only what was typed is copied

# Pages below a page, and the sections of the front page. They are not in the Markdown, because
# GitHub would show a toctree as code. A page that is missing here fails the build (`-W`).
SECTIONS = {
    "Start": ["getting_started", "install", "commands", "glossary", "/CHANGELOG"],
    "Read a report": [
        "reports",
        "profiling",
        "optimize",
        "diff",
        "amounts",
        "pages",
        "exports",
        "metric_traps",
        "findings",
        "metrics",
    ],
    "Use it elsewhere": ["python", "ci", "mcp", "skill", "context", "agent"],
    "Many profiles": ["batch", "store", "insights", "scale"],
    "How far to trust it": ["analyst", "machine_code", "results", "/kernels_samples/README"],
    "For maintainers": [
        "/CONTRIBUTING",
        "architecture",
        "modules",
        "parameters",
        "evals",
        "decisions/README",
        "/examples/README",
    ],
}
CHILDREN = {
    "docs/commands": ["commands/*"],
    "docs/findings": ["findings/*"],
    "docs/agent": ["agent_checks", "agent_safety", "agent_results"],
    "docs/ci": ["ci_noise"],
    "docs/diff": ["diff_times"],
    "docs/profiling": ["profiling_examples"],
    "docs/results": ["results_models", "results_checks"],
    "docs/metrics": ["metrics/*"],
    "docs/modules": ["modules/*"],
    "docs/evals": ["evals_optimize", "/evals/results/*", "/evals/skill_trial/README"],
    "docs/evals_optimize": ["/evals/optimize/programs/README"],
    "docs/decisions/README": ["*"],
    "kernels_samples/README": ["casebook/README", "casebook/AUTHORS"],
}


def toctree(entries: list[str], caption: str = "") -> str:
    options = ":hidden:\n:glob:\n" + (f":caption: {caption}\n" if caption else "")
    return "\n```{toctree}\n" + options + "\n" + "\n".join(entries) + "\n```\n"


def add_toctrees(_app: Sphinx, page: str, source: list[str]) -> None:
    if page == root_doc:
        source[0] += "".join(toctree(entries, caption) for caption, entries in SECTIONS.items())
    elif page in CHILDREN:
        source[0] += toctree(CHILDREN[page])


def add_html_anchors(app: Sphinx, doctree: document) -> None:
    """Links may lead to `<a id="metric">`, which MyST does not see."""
    slugs = app.env.metadata[app.env.docname].setdefault("myst_slugs", {})
    for raw in doctree.findall(nodes.raw):
        for anchor in re.findall(r'<a id="([^"]+)"', raw.astext()):
            slugs[anchor] = (0, anchor, anchor)


class Session(BashSessionLexer):
    """Only `$` is a prompt: keet's own output has lines that begin with `#0`."""

    _ps1rgx = re.compile(r"^(\$ )(.*\n?)")


def setup(app: Sphinx) -> None:
    app.add_lexer("console", Session)
    app.connect("source-read", add_toctrees)
    app.connect("doctree-read", add_html_anchors)
