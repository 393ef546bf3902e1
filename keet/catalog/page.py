"""docs/metrics.md: the catalog as a page to read. Written by `make docs`, kept true by a test."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from keet.catalog.availability import CHIPS, chips_with
from keet.catalog.loading import (
    MetricSpec,
    gpus,
    hardware_units,
    metrics,
    sections,
    stalls,
    throughputs,
)

_INTRO = """\
# Metrics

What keet knows about Nsight Compute's metrics. Made by `make docs` from `keet/catalog/*.toml`; edit
those, not this page.

Each metric has an id that is the same on every GPU and in every version of ncu, the label of
Nsight Compute's details page where there is one, the unit of its raw value, and the names under
which reports have it, the preferred one first. Behind a name stand the compute capabilities that
have it, where not all from 7.0 to 12.0 do. `keet metrics REPORT PATTERN` searches all of this.
**Bold** ids are the key metrics that `keet metrics REPORT` lists.

A sector is 32 bytes. Units are true, also where ncu's own are missing or wrong: it prints `byte`
for some sectors and wavefronts, `warp` for samples, `block` for the dimensions of a block."""


def page() -> str:
    return (
        "\n".join([_INTRO, *_metric_tables(), *_stalls(), *_units(), *_sections(), *_gpus()]) + "\n"
    )


def _table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    heads = list(headings)
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def _metric_tables() -> Iterator[str]:
    known = sections()
    groups: dict[str | None, list[MetricSpec]] = {}
    for spec in metrics().values():
        groups.setdefault(spec.section, []).append(spec)
    for section, specs in groups.items():
        title = known[section].title if section else "In no section of ncu"
        flag = f"`ncu --section {section}`" if section else "`ncu --metrics NAME`"
        yield f"\n## {title}\n\n{flag}\n"
        yield from _table(("Id", "Label", "Unit", "Meaning", "Names"), map(_metric_row, specs))


def _metric_row(spec: MetricSpec) -> tuple[str, ...]:
    identity = f"**`{spec.id}`**" if spec.key else f"`{spec.id}`"
    names = "<br>".join(f"`{name}`{_where(name)}" for name in spec.names)
    kind = {"address": " By instruction.", "opcode": " By opcode.", "curve": " A curve."}
    parts = kind.get(spec.instances or "", "")
    return identity, spec.label, spec.unit or "-", spec.meaning + parts, names


def _where(name: str) -> str:
    """The compute capabilities that have it, where not all do."""
    chips = chips_with(name)
    return "" if chips is None or len(chips) == len(CHIPS) else f" ({', '.join(chips)})"


def _stalls() -> Iterator[str]:
    yield "\n## Warp stall reasons\n"
    yield from _table(
        ("Reason", "Waits for", "Meaning", "Usual causes"),
        (
            (f"`{stall.id}`", stall.waits_for, stall.meaning, "; ".join(stall.usual_causes))
            for stall in stalls().values()
        ),
    )


def _units() -> Iterator[str]:
    yield "\n## Hardware units\n"
    yield from _table(
        ("Unit", "Kind", "Does", "Share of peak, in %", "Of"),
        (
            (
                unit.label,
                unit.kind,
                unit.does,
                "<br>".join(f"`{name}`" for name in unit.share_of_peak),
                f"{unit.basis} cycles",
            )
            for unit in hardware_units().values()
        ),
    )


def _sections() -> Iterator[str]:
    yield "\n## Sections of ncu\n"
    yield from _table(
        ("Section", "Gives", "In the sets"),
        (
            (f"`{section.id}`", section.gives, ", ".join(section.sets) or "-")
            for section in sections().values()
        ),
    )


def _gpus() -> Iterator[str]:
    yield "\n## Peaks of GPUs\n"
    yield "Used only where a report has no peaks of its own.\n"
    yield from _table(
        ("Name contains", "CC", "SMs", "DRAM GB/s", "L2 MB", "Boost MHz", "Source"),
        (
            (
                gpu.match,
                gpu.cc,
                *map(_known, (gpu.sms, gpu.dram_gbps, gpu.l2_mb, gpu.boost_mhz)),
                gpu.source,
            )
            for gpu in gpus()
        ),
    )
    yield "\nResults a cycle and SM, by compute capability:\n"
    kinds = list(dict.fromkeys(k for table in throughputs().values() for k in table.per_cycle))
    yield from _table(
        ("CC", *kinds, "Source"),
        (
            (table.cc, *(_known(table.per_cycle.get(kind)) for kind in kinds), table.source)
            for table in throughputs().values()
        ),
    )


def _known(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


if __name__ == "__main__":
    sys.stdout.write(page())
