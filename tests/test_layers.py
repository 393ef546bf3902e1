"""Rules for imports: only from lower layers, no circles, one owner per heavy package.

docs/architecture.md describes the layers. Imports inside functions and under TYPE_CHECKING count,
too.
"""

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.rows import each_row

ROOT = Path(__file__).parent.parent
LAYERS = [
    {"safe_text", "formatting", "masking"},
    {"errors", "files", "version", "progress"},
    {"units", "lazy"},
    {"catalog"},
    {"profile", "evidence"},
    {"documents", "source_code"},
    {"report", "analysis", "prose"},
    {"findings"},
    {"diagnosis"},
    {"explanation"},
    {"comparison"},
    {"verification"},
    {"pages"},
    {"formats"},
    {"keet_tools"},
    {"agent", "collect"},
    {"corpus", "optimize"},
    {"api"},
    {"serve"},
    {"cli", "evals"},
]
"""From the lowest to the highest. A part imports parts of lower layers, and none of its own layer
(except in the lowest one)."""
DEPTH = {part: depth for depth, layer in enumerate(LAYERS) for part in layer}
SASS_FOLDERS = ["instructions", "flow", "polynomials", "analyses"]
"""Folders of keet/analysis/machine_code. Each may import only those before it."""

OWNERS = {
    "ncu_report": {"keet/report/nvidia_reader_child.py"},
    "langchain": {"keet/agent/"},
    "langchain_core": {"keet/agent/"},
    "langchain_openai": {"keet/agent/"},
    "openai": {"keet/agent/"},
    "shtab": {"keet/cli/completion.py"},
    "rich": {"keet/formats/terminal.py"},
    "duckdb": {"keet/corpus/"},
    "distributed": {"keet/corpus/"},
    "mcp": {"keet/serve/"},
    "mcp_types": {"keet/serve/"},
    "uvicorn": {"keet/serve/"},
    "nsight": {"keet/collect/"},
    "pandas": {"keet/profile/profile.py", "keet/corpus/", "keet/api/"},
}
"""The only places that may import a heavy package."""

Import = ast.Import | ast.ImportFrom


def modules() -> list[Path]:
    return sorted([*(ROOT / "keet").rglob("*.py"), *(ROOT / "tools" / "keet_tools").rglob("*.py")])


def module_of(path: Path) -> str:
    """`tools/keet_tools/answers.py` is imported as `keet_tools.answers`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[1:] if parts[0] == "tools" else parts)


def part_of(module: str) -> str | None:
    """`keet.report.protobuf` belongs to `report`, `keet_tools.answers` to `keet_tools`; the package
    `keet` itself to no part."""
    names = module.split(".")
    if names[0] == "keet_tools":
        return "keet_tools"
    return names[1] if names[0] == "keet" and len(names) > 1 else None


def imported(path: Path) -> Iterator[str]:
    """Every name that a file imports, wherever the import is: `a.b` and `a.b.c` for
    `from a.b import c`."""
    for node in imports_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif node.module:
            assert node.level == 0, f"{path}: imports are absolute"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def imports_of(path: Path) -> list[Import]:
    return [*imports_in(ast.parse(path.read_text(encoding="utf-8")).body)]


def imports_in(body: Sequence[ast.AST]) -> Iterator[Import]:
    """Faster than `ast.walk`, which looks into expressions too."""
    for node in body:
        if isinstance(node, Import):
            yield node
        for part in ("body", "orelse", "handlers", "finalbody", "cases"):
            yield from imports_in(getattr(node, part, ()))


@each_row("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_rules(path: Path) -> None:
    """All rules in one test, because parsing a module takes longer than checking its imports."""
    modules = list(imported(path))
    check_imports_only_lower_layers(path, modules)
    check_heavy_packages_have_one_owner(path, modules)
    check_sass_folders_are_in_order(module_of(path), modules)


def check_imports_only_lower_layers(path: Path, modules: list[str]) -> None:
    here = part_of(module_of(path))
    if here is None or here in ("__init__", "__main__"):
        return
    assert here in DEPTH, f"{here} is in no layer: add it to LAYERS and to docs/architecture.md"
    for module in modules:
        there = part_of(module)
        if there in (None, here) or there not in DEPTH:
            continue
        assert DEPTH[there] <= DEPTH[here], f"{here} imports {there}, which is in a higher layer"
        if DEPTH[there] == DEPTH[here] and here != "catalog":
            same = f"{here} imports {there}, which is in the same layer"
            assert {here, there} <= LAYERS[0], same


def check_heavy_packages_have_one_owner(path: Path, modules: list[str]) -> None:
    name = str(path.relative_to(ROOT))
    for module in modules:
        owners = OWNERS.get(module.split(".")[0])
        allowed = owners is None or any(name.startswith(owner) for owner in owners)
        assert allowed, f"{name} imports {module}: only {', '.join(owners or ())} may do that"


def check_sass_folders_are_in_order(here: str, modules: list[str]) -> None:
    own = sass_folder(here)
    for module in modules:
        other = sass_folder(module)
        if own is not None and other is not None:
            assert other <= own, (
                f"{here} imports {module}: see keet/analysis/machine_code/__init__.py"
            )


def sass_folder(module: str) -> int | None:
    """Index in SASS_FOLDERS; None for modules outside of these folders."""
    match module.split("."):
        case ["keet", "analysis", "machine_code", folder, *_] if folder in SASS_FOLDERS:
            return SASS_FOLDERS.index(folder)
    return None


def test_there_are_no_import_circles() -> None:
    """Also not through imports inside functions or under TYPE_CHECKING: then a module can be
    understood without the modules that use it."""
    circle = circle_in({module_of(path): imports_of(path) for path in modules()})
    assert not circle, f"{' imports '.join(circle)}: move what both need into a third module"


def circle_in(imports: Mapping[str, Iterable[Import]]) -> list[str]:
    """Modules of which each imports the next, and the last one is the first; empty if there is no
    circle. A package stands for its `__init__`."""
    known = {name.removesuffix(".__init__"): nodes for name, nodes in imports.items()}
    graph = {
        name: {each for each in targets(nodes, known) if each != name}
        for name, nodes in known.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def targets(nodes: Iterable[Import], known: Collection[str]) -> Iterator[str]:
    """The imported modules. `from package import module` imports the module: the package itself is
    imported only for other names."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        else:
            for alias in node.names:
                module = f"{node.module}.{alias.name}"
                yield from [each for each in (module, node.module) if each in known][:1]


def test_the_child_process_does_not_import_keet() -> None:
    """It must start fast, and may crash."""
    path = ROOT / "keet" / "report" / "nvidia_reader_child.py"
    assert not [module for module in imported(path) if module.startswith("keet")]
