"""`keet roofline --format svg`: one log-log chart per GPU, and a table of its launches below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from keet.analysis.roofline.launch_roofline import LaunchRoofline
from keet.documents.roofline import RooflineLaunch
from keet.evidence import Sentence, constant, counted
from keet.formats.svg.markup import cut, drawing_file, tag, text_of
from keet.formats.svg.roofline_plot import HEIGHT as PLOT_HEIGHT
from keet.formats.svg.roofline_plot import (
    SHAPES,
    WIDTH,
    Plot,
    dram_intensity,
    rate_words,
    why_no_nearest,
)
from keet.pages.device import describe_device
from keet.profile import Launch
from keet.profile.launch_sequences import longest_first
from keet.units import format_number

_HEAD = 88
_ROW = 22
_MOST_LAUNCHES = 30
"""Most launches on one chart, the longest ones: more cannot be distinguished."""


def roofline_svg(rooflines: Sequence[LaunchRoofline]) -> str:
    """All launches, a chart for each GPU that they ran on."""
    parts: list[str] = []
    top = 0.0
    by_launch = {roofline.id: roofline for roofline in rooflines}
    for device, group in by_device([roofline.launch for roofline in rooflines]).items():
        shown = [by_launch[launch.id] for launch in longest(group)]
        drawn, height = _chart(device, [by_launch[launch.id] for launch in group], shown)
        parts.append(tag("g", drawn, transform=f"translate(0 {top:g})"))
        top += height
    names = "; ".join(f"#{r.id} {r.kernel}: {r.reading}" for r in rooflines[:_MOST_LAUNCHES])
    return drawing_file("Roofline", names, "roofline", (WIDTH, top), parts)


def by_device(launches: Sequence[Launch]) -> Mapping[str, Sequence[Launch]]:
    """The launches of each GPU: peaks of two do not belong on one chart."""
    launches_of: dict[str, list[Launch]] = {}
    for launch in launches:
        launches_of.setdefault(describe_device(launch.device), []).append(launch)
    return launches_of


def longest(launches: Sequence[Launch]) -> list[Launch]:
    """The launches that one chart has room for, in the order of the report."""
    by_time = longest_first(launches)
    return sorted(by_time[:_MOST_LAUNCHES], key=lambda launch: launch.id)


def _chart(
    device: str, rooflines: Sequence[RooflineLaunch], shown: Sequence[RooflineLaunch]
) -> tuple[str, float]:
    plot = Plot(shown)
    words = subtitle(device, rooflines, len(rooflines) - len(shown))
    parts = [
        tag("text", "Roofline", x=40, y=40, class_="title"),
        tag("text", text_of(words), x=40, y=62, class_="muted"),
        *_legend(plot),
    ]
    height = float(_HEAD)
    if plot.is_empty:
        parts.append(tag("text", text_of(EMPTY), x=40, y=height + 10, class_="muted"))
        height += 30
    else:
        parts.append(tag("g", plot.draw(), transform=f"translate(0 {_HEAD})"))
        height += PLOT_HEIGHT
    parts += _table(shown, height)
    return "\n".join(parts), height + _ROW * (len(shown) + 1) + 28


EMPTY = (
    "No chart: the report counts no arithmetic, or no bytes; "
    "profile with: ncu --section SpeedOfLight_RooflineChart --section MemoryWorkloadAnalysis"
)


def subtitle(device: str, rooflines: Sequence[RooflineLaunch], left_out: int) -> Sentence:
    """The GPU, how many launches, and at which clock they ran."""
    clocks = [float(r.sm_clock.value) / 1e9 for r in rooflines if r.sm_clock]
    words = [device, counted(len(rooflines), "launch")]
    if clocks:
        ends = (constant(clock, "", "SM clock") for clock in (min(clocks), max(clocks)))
        told = dict.fromkeys(Sentence("{clock:.2f}", clock=end) for end in ends)
        clock = Sentence(" to ").join(told)
        words.append(Sentence("SM clock {clock} GHz", clock=clock))
    if left_out:
        most = constant(_MOST_LAUNCHES, "", "launches on one chart")
        words.append(Sentence("the {most:d} longest are shown", most=most))
    return Sentence(", ").join(words)


def _legend(plot: Plot) -> Iterator[str]:
    """Which mark stands for which level: by shape as well as by colour."""
    names = plot.level_names
    x = float(WIDTH - 40 - 68 * len(names))
    if names:
        yield tag("text", "at the bytes of", x=x, y=62, class_="muted right")
    for level, label in names.items():
        yield SHAPES[level](x + 18, 58.0, 5.0)
        yield tag("text", label, x=x + 28, y=62, class_="muted")
        x += 68


_COLUMNS = {
    "#": (56, "right"),
    "kernel": (72, ""),
    "time": (408, "right"),
    "arithmetic": (428, ""),
    "per DRAM byte": (722, "right"),
    "nearest ceiling": (744, ""),
}


def _table(rooflines: Sequence[RooflineLaunch], top: float) -> Iterator[str]:
    y = top + 14
    for heading, (x, anchor) in _COLUMNS.items():
        yield tag("text", heading, x=x, y=y, class_=f"head {anchor}".strip())
    for roofline in rooflines:
        yield tag("line", x1=40, x2=WIDTH - 40, y1=y + 7.5, y2=y + 7.5, class_="rule")
        y += _ROW
        yield from _table_row(roofline, y)


def _table_row(roofline: RooflineLaunch, y: float) -> Iterator[str]:
    kernel = cut(roofline.kernel, 270, 12)
    per_byte = dram_intensity(roofline)
    cells = (
        (str(roofline.id), "strong"),
        (kernel, ""),
        (str(roofline.duration) if roofline.duration else "-", ""),
        (rate_words(roofline), ""),
        ("-" if per_byte is None else format_number(per_byte), ""),
    )
    for (words, weight), (x, anchor) in zip(cells, _COLUMNS.values()):
        yield tag("text", text_of(words), x=x, y=y, class_=f"{weight} {anchor}".strip() or None)
    yield from _nearest(roofline, y)


def _nearest(roofline: RooflineLaunch, y: float) -> Iterator[str]:
    x = _COLUMNS["nearest ceiling"][0]
    if not roofline.nearest:
        yield tag("text", why_no_nearest(roofline), x=x, y=y, class_="muted")
        return
    nearest = roofline.nearest_ceilings
    share = min(nearest[0].share, 1.0)
    yield tag("rect", x=x, y=y - 9, width=60, height=9, rx=2, class_="track")
    yield tag("rect", x=x, y=y - 9, width=60 * share, height=9, rx=2, class_="fill")
    labels = ", ".join(ceiling.label for ceiling in nearest)
    words = cut(f"{nearest[0].reached:.0f} {labels}", WIDTH - 40 - x - 68, 12)
    yield tag("text", text_of(words), x=x + 68, y=y)
