"""Imports point down, strangers do not know each other, and each heavy package has one owner."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.rows import each_row

ROOT = Path(__file__).parent.parent
LAYERS = [
    {"texts"},
    {"units", "errors", "files", "version"},
    {"catalog"},
    {"profile", "evidence"},
    {"ingest", "analysis", "prose"},
    {"explanation"},
    {"verification"},
    {"comparison"},
    {"keet_tools"},
    {"agent", "render", "corpus", "serve", "collect"},
    {"cli", "evals"},
]
DEPTH = {part: depth for depth, layer in enumerate(LAYERS) for part in layer}


OWNERS = {
    "ncu_report": {"keet/ingest/native_child.py"},
    "langchain": {"keet/agent/"},
    "langchain_core": {"keet/agent/"},
    "langchain_openai": {"keet/agent/"},
    "openai": {"keet/agent/"},
    "rich": {"keet/render/", "keet/cli/"},
    "duckdb": {"keet/corpus/"},
    "distributed": {"keet/corpus/"},
    "mcp": {"keet/serve/"},
    "nsight": {"keet/collect/"},
    "pandas": {"keet/profile/frames.py", "keet/profile/model.py", "keet/corpus/"},
}


def modules() -> list[Path]:
    return sorted([*(ROOT / "keet").rglob("*.py"), *(ROOT / "tools" / "keet_tools").rglob("*.py")])


def module_of(path: Path) -> str:
    """`tools/keet_tools/case.py` is imported as `keet_tools.case`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[1:] if parts[0] == "tools" else parts)


def part_of(module: str) -> str | None:
    """`keet.ingest.wire` belongs to `ingest`, `keet_tools.case` to `keet_tools`; the package itself
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
    """Both rules at once: to read a module takes longer than to judge what it imports."""
    modules = list(imported(path))
    check_that_they_point_down(path, modules)
    check_that_a_heavy_package_has_one_owner(path, modules)


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


def test_the_child_knows_nothing_of_keet() -> None:
    """It has to start fast, and to die without taking anything along."""
    path = ROOT / "keet" / "ingest" / "native_child.py"
    assert not [module for module in imported(path) if module.startswith("keet")]
