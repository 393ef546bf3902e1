"""Imports point down, strangers do not know each other, and each heavy package has one owner."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.rows import each_row

ROOT = Path(__file__).parent.parent
LAYERS = [
    {"records", "patterns"},
    {"texts", "formatting"},
    {"errors", "files", "version", "progress"},
    {"units", "extras"},
    {"catalog"},
    {"profile", "evidence"},
    {"ingest", "analysis", "prose"},
    {"explanation"},
    {"verification"},
    {"comparison"},
    {"keet_tools"},
    {"agent", "render", "collect"},
    {"corpus"},
    {"api"},
    {"serve"},
    {"cli", "evals"},
]
DEPTH = {part: depth for depth, layer in enumerate(LAYERS) for part in layer}


OWNERS = {
    "ncu_report": {"keet/ingest/sass/nvidia_reader_child.py"},
    "langchain": {"keet/agent/"},
    "langchain_core": {"keet/agent/"},
    "langchain_openai": {"keet/agent/"},
    "openai": {"keet/agent/"},
    "rich": {"keet/render/terminal/highlighted.py"},
    "duckdb": {"keet/corpus/"},
    "distributed": {"keet/corpus/"},
    "mcp": {"keet/serve/"},
    "mcp_types": {"keet/serve/"},
    "uvicorn": {"keet/serve/"},
    "nsight": {"keet/collect/"},
    "pandas": {"keet/profile/frames.py", "keet/profile/model.py", "keet/corpus/", "keet/api/"},
}

RESULTS = {"top", "query", "insights", "cases"}
"""Commands whose result is a JSON document, the types of which every format may import."""
EMBEDDED = {("html", "svg"): None, ("html", "markdown"): {"context"}}
"""What a format embeds of another one: all of it, or what some commands print."""


def modules() -> list[Path]:
    return sorted([*(ROOT / "keet").rglob("*.py"), *(ROOT / "tools" / "keet_tools").rglob("*.py")])


def module_of(path: Path) -> str:
    """`tools/keet_tools/case.py` is imported as `keet_tools.case`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[1:] if parts[0] == "tools" else parts)


def part_of(module: str) -> str | None:
    """`keet.ingest.protobuf` belongs to `ingest`, `keet_tools.case` to `keet_tools`; the package itself
    to nobody."""
    names = module.split(".")
    if names[0] == "keet_tools":
        return "keet_tools"
    return names[1] if names[0] == "keet" and len(names) > 1 else None


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: imports are absolute"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@each_row("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports(path: Path) -> None:
    """All rules at once: to read a module takes longer than to judge what it imports."""
    modules = list(imported(path))
    check_that_they_point_down(path, modules)
    check_that_a_heavy_package_has_one_owner(path, modules)
    check_that_formats_are_apart(module_of(path), modules)


def check_that_they_point_down(path: Path, modules: list[str]) -> None:
    here = part_of(module_of(path))
    if here is None or here in ("__init__", "__main__"):
        return
    assert here in DEPTH, f"{here} is in no layer: add it to LAYERS and to docs/architecture.md"
    for module in modules:
        there = part_of(module)
        if there in (None, here) or there not in DEPTH:
            continue
        assert DEPTH[there] <= DEPTH[here], f"{here} imports {there}, which is above it"
        if DEPTH[there] == DEPTH[here] and here != "catalog":
            assert {here, there} <= LAYERS[0], f"{here} and {there} are strangers"


def check_that_a_heavy_package_has_one_owner(path: Path, modules: list[str]) -> None:
    name = str(path.relative_to(ROOT))
    for module in modules:
        owners = OWNERS.get(module.split(".")[0])
        assert owners is None or any(name.startswith(o) for o in owners), f"{name} imports {module}"


def check_that_formats_are_apart(here: str, modules: list[str]) -> None:
    wrong = [module for module in modules if not may_print_with(here, module)]
    assert not wrong, f"{here} imports {wrong[0]}: see keet/render/__init__.py"


def may_print_with(here: str, there: str) -> bool:
    """The rule of keet/render/__init__.py: a format imports itself and `common`, which imports no
    format."""
    own, other = format_and_command(here), format_and_command(there)
    if own is None or other is None or own[0] == other[0] or other[0] == "common":
        return True
    if other[0] == "json" and other[1] in RESULTS:
        return True
    commands = EMBEDDED.get((own[0], other[0]), set())
    return commands is None or other[1] in commands


def format_and_command(module: str) -> tuple[str, str] | None:
    """`keet.render.json.top` prints `top` in `json`. Other modules, and packages: None."""
    match module.split("."):
        case ["keet", "render", form, command, *_]:
            return form, command
    return None


def test_the_rule_of_the_formats() -> None:
    """It lets through what it should, and nothing else."""
    allowed = [
        ("keet.render.html.diff", "keet.render.common.diff"),
        ("keet.render.html.roofline", "keet.render.svg.roofline.roofline_svg"),
        ("keet.render.html.explain", "keet.render.markdown.context.context_text"),
        ("keet.render.svg.insights", "keet.render.json.insights.SweepDocument"),
        ("keet.render.common.top", "keet.render.json.top"),
        ("keet.cli.top", "keet.render.terminal.top"),
        ("keet.render.csv.top", "keet.catalog"),
    ]
    forbidden = [
        ("keet.render.markdown.diff", "keet.render.terminal.diff"),
        ("keet.render.markdown.diff", "keet.render.terminal.diff.gate_verdict"),
        ("keet.render.common.diff", "keet.render.markdown.markup"),
        ("keet.render.common.diff", "keet.render.json.diff"),
        ("keet.render.svg.roofline", "keet.render.html.roofline"),
        ("keet.render.markdown.roofline", "keet.render.svg.roofline"),
        ("keet.render.html.explain", "keet.render.json.explain"),
        ("keet.render.html.explain", "keet.render.markdown.explain"),
        ("keet.render.terminal.explain", "keet.render.markdown.context"),
    ]
    assert [pair for pair in allowed if not may_print_with(*pair)] == []
    assert [pair for pair in forbidden if may_print_with(*pair)] == []


def test_every_format_is_a_package_that_says_what_it_prints() -> None:
    """Modules of render are in the folder of their format."""
    render = ROOT / "keet" / "render"
    assert [path.name for path in render.glob("*.py")] == ["__init__.py"]
    folders = [path for path in render.iterdir() if any(path.glob("*.py"))]
    for folder in folders:
        assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))), folder


def test_what_formats_share_loads_no_library_of_one() -> None:
    """Markdown needs no rich, and a terminal no pydantic: `common` brings neither."""
    common = [module_of(path) for path in (ROOT / "keet" / "render" / "common").glob("*.py")]
    probe = f"import sys, {', '.join(common)}; print({{'rich', 'pydantic'}} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_child_knows_nothing_of_keet() -> None:
    """It has to start fast, and to die without taking anything along."""
    path = ROOT / "keet" / "ingest" / "sass" / "nvidia_reader_child.py"
    assert not [module for module in imported(path) if module.startswith("keet")]
