"""Writes docs/metrics.md and docs/metrics/: the catalog as pages. Compiles the catalog's TOML files
into the JSON file that keet loads: parsing 240 kB of TOML takes longer than reading a report.

`make docs` runs this, and tests fail if the pages, or the compiled file, and their sources differ.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from keet.catalog.loading import (
    CHIPS,
    MetricSpec,
    chips_with,
    gpus,
    hardware_units,
    metrics,
    sections,
    stalls,
    throughputs,
)

_MADE = "<!-- Made by `make docs` from keet/catalog/*.toml: edit those. -->"
_INTRO = f"""\
{_MADE}
# Metrics

What keet knows about Nsight Compute's metrics.

There is one page per section of ncu, and pages about stall reasons, hardware units, sections and
GPUs. `keet metrics REPORT PATTERN` searches the metrics of a report by name and meaning.

- **Id**: keet's name for the metric, the same on every GPU and in every version of ncu. Bold ids
  are the key metrics, which `keet metrics REPORT` lists. Below it is the label on Nsight Compute's
  details page.
- **Unit**: the unit of the raw value.
- **Meaning**, and below it the names in reports, the preferred one first. In brackets are the
  compute capabilities that have it, if not all from 7.0 to 12.0 do.

A [sector](glossary.md#sector) is 32 bytes. Units are corrected where ncu's own are missing or
wrong: it prints `byte` for some sectors and wavefronts, `warp` for samples, `block` for the
dimensions of a block. [Metric traps](metric_traps.md) explains which numbers mislead.
"""
_NO_SECTION = "Other metrics"
Page = tuple[str, list[str]]
"""The title of a page, and its lines."""


def pages() -> dict[str, str]:
    """Texts by path in docs/: the index, and one page per section and table."""
    groups = _metrics_by_section()
    by_path = {_path(section): _section_page(section, specs) for section, specs in groups.items()}
    tables = {f"metrics/{name}.md": page for name, page in _tables().items()}
    texts = {
        path: f"{_MADE}\n# {title}\n\nPart of [Metrics](../metrics.md).\n" + "\n".join(lines) + "\n"
        for path, (title, lines) in (by_path | tables).items()
    }
    return {"metrics.md": "\n".join(_index(groups, tables)) + "\n", **texts}


def _metrics_by_section() -> dict[str | None, list[MetricSpec]]:
    """In the order of ncu's details page; metrics without a section are last."""
    groups: dict[str | None, list[MetricSpec]] = {each: [] for each in (*sections(), None)}
    for spec in metrics().values():
        groups[spec.section].append(spec)
    return {section: specs for section, specs in groups.items() if specs}


def _path(section: str | None) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", section or "other")
    return f"metrics/{words.lower()}.md"


def _tables() -> dict[str, Page]:
    return {
        "stall_reasons": ("Warp stall reasons", ["", *_stalls()]),
        "hardware_units": ("Hardware units", ["", *_units()]),
        "sections": ("Sections of ncu", ["", *_sections()]),
        "gpus": ("Peaks of GPUs", ["", *_gpus()]),
    }


def _index(groups: dict[str | None, list[MetricSpec]], tables: dict[str, Page]) -> Iterator[str]:
    yield _INTRO
    yield "## By section of ncu\n"
    rows = (
        (f"[{_title(section)}]({_path(section)})", str(len(specs)), _gives(section))
        for section, specs in groups.items()
    )
    yield from _table(("Section", "Metrics", "Contains"), rows)
    yield "\n## Tables\n"
    yield from (f"- [{title}]({path})" for path, (title, _) in tables.items())
    yield "\n## Key metrics\n"
    keys = (
        (f"[`{spec.id}`]({_path(spec.section)}#{spec.id})", spec.label, spec.unit or "-")
        for spec in metrics().values()
        if spec.key
    )
    yield from _table(("Id", "Label", "Unit"), keys)


def _title(section: str | None) -> str:
    return sections()[section].title if section else _NO_SECTION


def _gives(section: str | None) -> str:
    known = "Metrics that no section of ncu collects: name them with `ncu --metrics`."
    return sections()[section].gives if section else known


def _section_page(section: str | None, specs: list[MetricSpec]) -> Page:
    flag = f"`ncu --section {section}`" if section else "`ncu --metrics NAME`"
    rows = map(_metric_row, specs)
    table = _table(("Id", "Unit", "Meaning and names"), rows)
    return _title(section), [f"\n{_gives(section)} Collect with {flag}.\n", *table]


def _table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    heads = list(headings)
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def _metric_row(spec: MetricSpec) -> tuple[str, ...]:
    name = f"**`{spec.id}`**" if spec.key else f"`{spec.id}`"
    identity = f'<a id="{spec.id}"></a>{name}<br>{spec.label}'
    names = []
    for name in spec.names:
        chips = chips_with(name) or CHIPS  # if not all have it, those that do
        names.append(f"`{name}`" + (f" ({', '.join(chips)})" if len(chips) < len(CHIPS) else ""))
    kind = {"address": " By instruction.", "opcode": " By opcode.", "curve": " A curve."}
    parts = kind.get(spec.instances or "", "")
    return identity, spec.unit or "-", f"{spec.meaning}{parts}<br>{'<br>'.join(names)}"


def _stalls() -> Iterator[str]:
    rows = (
        (f"`{stall.id}`", stall.waits_for, stall.meaning, "; ".join(stall.usual_causes))
        for stall in stalls().values()
    )
    yield from _table(("Reason", "Waits for", "Meaning", "Usual causes"), rows)


def _units() -> Iterator[str]:
    rows = []
    for unit in hardware_units().values():
        names = "<br>".join(f"`{name}`" for name in unit.share_of_peak)
        rows.append((unit.label, unit.kind, unit.does, names, f"{unit.basis} cycles"))
    yield from _table(("Unit", "Kind", "Does", "Share of peak, in %", "Of"), rows)


def _sections() -> Iterator[str]:
    known = sections().values()
    rows = ((f"`{each.id}`", each.gives, ", ".join(each.sets) or "-") for each in known)
    yield from _table(("Section", "Gives", "In the sets"), rows)


def _gpus() -> Iterator[str]:
    yield "Used only where a report has no peaks of its own.\n"
    heads = ("Name contains", "CC", "SMs", "DRAM GB/s", "L2 MB", "Boost MHz", "Source")
    rows = []
    for gpu in gpus():
        numbers = map(_known, (gpu.sms, gpu.dram_gbps, gpu.l2_mb, gpu.boost_mhz))
        rows.append((gpu.match, gpu.cc, *numbers, gpu.source))
    yield from _table(heads, rows)
    yield "\nResults per cycle and SM, by compute capability:\n"
    tables = throughputs().values()
    kinds = list(dict.fromkeys(kind for table in tables for kind in table.per_cycle))
    rates = (
        (table.cc, *(_known(table.per_cycle.get(kind)) for kind in kinds), table.source)
        for table in tables
    )
    yield from _table(("CC", *kinds, "Source"), rates)


def cell(text: str) -> str:
    """Escapes `|`, which would end a cell even within code."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def _known(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


def write(docs: Path, folder: str, texts: dict[str, str]) -> None:
    """Write pages by path, and remove those of the folder that no longer exist."""
    (docs / folder).mkdir(exist_ok=True)
    for path, text in texts.items():
        (docs / path).write_text(text, encoding="utf-8")
    for page in (docs / folder).glob("*.md"):
        if f"{folder}/{page.name}" not in texts:
            page.unlink()


FOLDER = Path(__file__).resolve().parents[2] / "keet/catalog"
COMPILED = FOLDER / "compiled.json"


def compiled_text() -> str:
    """The whole catalog as JSON, one entry per line: `loading` splits it by lines."""
    tables: dict[str, Any] = {path.stem: _toml(path) for path in sorted(FOLDER.glob("*.toml"))}
    metrics: dict[str, Any] = {}
    for path in sorted((FOLDER / "metrics").glob("*.toml")):
        for key, row in _toml(path).items():
            if metrics.setdefault(key, row) is not row:
                raise ValueError(f"{path.name}: the id {key!r} is taken")
    tables["metrics"] = metrics
    tables["metric_ids"] = {name: key for key, row in metrics.items() for name in row["names"]}
    return (
        "{\n" + ",\n".join(_compiled_table(name, table) for name, table in tables.items()) + "\n}\n"
    )


def _toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _compiled_table(name: str, rows: dict[str, Any]) -> str:
    lines = (
        f" {json.dumps(key)}: {json.dumps(row, ensure_ascii=False)}" for key, row in rows.items()
    )
    return f"{json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n}"


if __name__ == "__main__":
    COMPILED.write_text(compiled_text(), encoding="utf-8")
    write(Path(sys.argv[1]), "metrics", pages())
