"""Writes pages like ncu: the details page as CSV and as text, for tests of the readers."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

IDENTITY = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name")
NEW = ("Context", "Stream", "Block Size", "Grid Size", "Device", "CC")
OLD = ("Kernel Time", "Context", "Stream")
METRIC = ("Section Name", "Metric Name", "Metric Unit", "Metric Value")
RULE = ("Rule Name", "Rule Type", "Rule Description", "Estimated Speedup Type", "Estimated Speedup")


class Cell(NamedTuple):
    """One row of a page."""

    section: str
    label: str
    unit: str
    value: str


class Advice(NamedTuple):
    """One result of a rule."""

    section: str
    rule: str
    kind: str
    message: str
    scope: str = ""
    percent: str = ""


@dataclass
class Shown:
    """One launch of a page."""

    name: str
    cells: list[Cell]
    grid: tuple[int, int, int] = (64, 1, 1)
    block: tuple[int, int, int] = (256, 1, 1)
    capability: str = "9.0"
    advice: list[Advice] = field(default_factory=list)


def _quoted(rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return text.getvalue()


def csv_page(launches: Iterable[Shown], *, old: bool = False) -> str:
    """As `ncu --csv` writes it: rows of metrics end behind the value, with one more comma."""
    text = _quoted([(*IDENTITY, *(OLD if old else NEW), *METRIC, *RULE)])
    for number, launch in enumerate(launches):
        known = [str(number), "12", "app", "127.0.0.1", launch.name]
        if old:
            known += ["2020-May-29 12:02:46", "1", "7"]
        else:
            known += ["1", "7", str(launch.block), str(launch.grid), "0", launch.capability]
        for cell in launch.cells:
            text += _quoted([(*known, *cell)]).rstrip("\n") + ",\n"
        text += _quoted((*known, a.section, "", "", "", *a[1:]) for a in launch.advice)
    return text


def text_page(launches: Iterable[Shown], *, old: bool = False) -> str:
    """As ncu prints it; `old`: with columns of fixed width, without a header and shapes."""
    lines = ["==PROF== Connected to process 12 (/home/me/app)", "hello", "[12] app@127.0.0.1"]
    for launch in launches:
        where = ", 2020-May-29 12:02:46, Context 1, Stream 7"
        if not old:
            shape = f" {launch.grid}x{launch.block}"
            where = f"{shape}, Context 1, Stream 7, Device 0, CC {launch.capability}"
        lines.append(f"  {launch.name}{where}")
        for section in dict.fromkeys(cell.section for cell in launch.cells):
            lines += [f"    Section: {section}"] if section else []
            cells = [cell for cell in launch.cells if cell.section == section]
            lines += _table(cells, old=old)
            for advice in launch.advice:
                lines += _advice(advice) if advice.section == section else []
            lines.append("")
    return "\n".join(lines) + "\n"


def _table(cells: Sequence[Cell], *, old: bool) -> list[str]:
    heading = ("Metric Name", "Metric Unit", "Metric Value")
    widths = [max(map(len, column)) for column in zip(heading, *(cell[1:] for cell in cells))]
    if old:
        widths = [70, 15, 30]
    ruler = "    " + " ".join("-" * width for width in widths)

    def line(label: str, unit: str, value: str) -> str:
        return f"    {label:<{widths[0]}} {unit:>{widths[1]}} {value:>{widths[2]}}"

    header = [] if old else [line(*heading), ruler]
    return [ruler, *header, *(line(*cell[1:]) for cell in cells), ruler]


def _advice(advice: Advice) -> list[str]:
    words = {"global": "Est. Speedup", "local": "Est. Local Speedup"}.get(advice.scope)
    lines = [f"{words}: {advice.percent}%"] if words else []
    lines += [advice.message[at : at + 100] for at in range(0, len(advice.message), 100)]
    first, *others = lines
    return [
        "",
        f"    {advice.kind:<5} {first:<110}",
        *(f"          {each:<110}" for each in others),
    ]
