"""The page of `keet show`: what was profiled, what is known, what is missing."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from keet.analysis.coverage import Coverage, ShownLaunch, profile_notes
from keet.analysis.hardware.ceilings import Ceilings
from keet.analysis.ledger import LaunchLedger, Ledger
from keet.analysis.recapture import made_with, recorded_command
from keet.evidence import Sentence, constant, counted
from keet.explanation.capture_hints import SOURCES_AT_HAND, steps_before
from keet.explanation.run_texts import whole_time
from keet.formatting import listed, shape_text
from keet.masking import masked_names
from keet.pages.blocks import (
    Block,
    Cell,
    Column,
    Command,
    Gap,
    Heading,
    Item,
    Items,
    Notice,
    Page,
    Reader,
    Span,
    Table,
    Text,
    Words,
    limited,
)
from keet.pages.capture import captured_text, describe_device
from keet.pages.program import run_blocks
from keet.profile import Profile
from keet.report.ncu_rep.container import uncertain_count
from keet.units import Quantity, format_number

_WIDE = 120
"""Columns from which on the shape of a launch is in the same row."""
_RUN_ROWS = 20
"""Kernels of the run that are listed."""
_RANGES_NAMED = 4
_LONGEST_LIST = 4
_PEAKS = {
    "SM": ("sm_throughput_pct",),
    "L1": (),
    "L2": ("l2_throughput_pct",),
    "DRAM": ("dram_throughput_pct", "fb_throughput_pascal_pct"),
}
"""Columns and their metrics by catalog id; reports of Pascal from 2019 have other names."""


def show_page(  # noqa: PLR0913 - what is on the page
    profile: Profile,
    coverage: Coverage,
    launches: Sequence[ShownLaunch],
    reader: Reader,
    *,
    cut: int = 0,
    masked: bool = False,
) -> Page:
    """The report, and a table of the launches in the order given. `cut`: number of launches left
    out. `masked`: say which values are masked."""
    blocks = [*_report(profile), Gap(), *_run(profile), _launch_table(profile, launches, reader)]
    blocks += [Gap(), *(Text(text, "muted") for text in _footnotes(profile, cut, reader))]
    blocks += [Gap(), *_coverage(coverage)]
    if masked:
        blocks += [Gap(), Text(_masked_text(profile), "muted")]
    return Page(blocks, profile.provenance.file)


def _report(profile: Profile) -> Iterator[Block]:
    origin = profile.provenance
    about = Sentence(
        ": {launches} on {devices}",
        launches=counted(len(profile.launches), "launch"),
        devices=", ".join(describe_device(device) for device in profile.devices),
    )
    yield Heading((Span(origin.file, "name"), about), look="")
    made = [
        f"ncu {origin.ncu_version}" if origin.ncu_version else "ncu version not recorded",
        f"CUDA {origin.cuda_version}" if origin.cuda_version else None,
        f"driver {origin.driver_version}" if origin.driver_version else None,
        captured_text(origin.created),
        Sentence("{size}", size=constant(origin.size, "byte", "size of the report")),
    ]
    yield Text(Sentence(", ").join(filter(None, made)), "muted")
    if stated := origin.origin:
        text = Sentence(
            "snapshot of {path} ({size}, {digest}…), as the snapshot states",
            path=origin.path,
            size=constant(stated.size, "byte", "size of the report"),
            digest=f"SHA-256 {stated.sha256[:16]}",
        )
        yield Text(text, "muted")
    if (command := made_with(profile)) is not None:
        yield Text(("made with: ", Span(command, "code")), "muted")
    elif arguments := recorded_command(profile).arguments:
        yield Text(Span(f"ncu {_short_lists(arguments)}", "code"), "muted")
    yield from (Notice(f"note: {note}") for note in profile_notes(profile))


def _short_lists(arguments: str) -> str:
    """Lists of metrics can have more characters than the rest of the page."""

    def short(found: re.Match[str]) -> str:
        names = found[0].split(",")
        return f"{names[0]},…,{names[-1]} ({len(names)})"

    return re.sub(rf"[^\s,]+(?:,[^\s,]+){{{_LONGEST_LIST},}}", short, arguments)


def _run(profile: Profile) -> Iterator[Block]:
    if profile.run is None:
        return
    from keet.explanation.whole_run import whole_run

    if (run := whole_run(profile)) is not None:
        yield from (*run_blocks(run, _RUN_ROWS), Gap())


def _launch_table(profile: Profile, launches: Sequence[ShownLaunch], reader: Reader) -> Table:
    has_run = bool(profile.run and profile.run.busy_ns and profile.in_run)
    shape = ("Grid", "Block", "Regs", "Shared", "Occ. %")
    numbers = ("Time", *(f"{unit} %" for unit in _PEAKS), *(["Run %"] if has_run else []))
    columns = [
        Column("#", is_number=True, look="muted"),
        Column("Kernel", look="name", least=12),
        *(Column(name, is_number=True, wide=_WIDE) for name in shape),
        *(Column(name, is_number=True) for name in numbers),
    ]
    is_wide = reader.width >= _WIDE
    rows = [_launch_row(launch, is_wide=is_wide) for launch in launches[: reader.rows]]
    return Table(columns, rows, limited(launches, reader, "--format json"), "Launches")


def _launch_row(launch: ShownLaunch, *, is_wide: bool) -> list[Words | Cell]:
    grid, block = shape_text(launch.grid, "-"), shape_text(launch.block, "-")
    duration, registers = map(launch.values.get, ("duration", "registers_per_thread"))
    below = ""
    if not is_wide and launch.workload == "kernel":
        more = f", {format_number(registers.value)} regs" if registers else ""
        below = f"grid {grid}, block {block}{more}"
    requested = map(launch.values.get, ("shared_memory_static", "shared_memory_dynamic"))
    shared = [part.value for part in requested if part is not None]  # without the driver's part
    run_share = launch.run_share_pct
    return [
        str(launch.id),
        Cell(Span(launch.kernel, "name"), below),
        grid,
        block,
        format_number(registers.value) if registers else "-",
        str(Quantity(sum(shared), "byte")) if shared else "-",
        _one_decimal(launch.values.get("achieved_occupancy_pct")),
        str(duration) if duration else "-",
        *map(_one_decimal, _peaks(launch)),
        f"{run_share:.1f}" if isinstance(run_share, float | int) else "-",
    ]


def _peaks(shown: ShownLaunch) -> Iterator[Quantity | None]:
    """The values of `keet explain`. ncu's own percentage of L1 is not used: it is over active
    cycles."""
    launch = shown.launch
    ceilings = Ceilings(LaunchLedger(launch))
    for unit, metric_ids in _PEAKS.items():
        reached = ceilings.reached(unit)
        reported = next(filter(None, map(launch.reported, metric_ids)), None)
        yield Quantity(reached.value, reached.unit) if reached else reported


def _one_decimal(quantity: Quantity | None) -> str:
    if quantity is None:
        return "-"
    return "n/a" if math.isnan(quantity.value) else f"{quantity.value:.1f}"


def _footnotes(profile: Profile, cut: int, reader: Reader) -> Iterator[str]:
    yield "% of peak, over elapsed cycles; - means not measured"
    if profile.run and profile.run.busy_ns:
        yield f"Run %: of {whole_time(profile.run)}, by the launches that this one represents"
    if reader.width < _WIDE:
        yield Sentence(
            "A terminal of {wide:d} columns or more also shows shared memory and occupancy.",
            wide=constant(_WIDE, "", "columns"),
        )
    if not profile.run:
        yield from _totals(profile)
    if cut > 0:
        yield Sentence(
            "{cut:,d} more launches: --all, --launch N, --kernel REGEX, --sort time",
            cut=constant(cut, "", "launches left out"),
        )
    if uncertain := uncertain_count(profile):
        yield uncertain
    if len(profile.devices) > 1:
        yield "several GPUs: keet show --format json says which launch ran on which"
    ranges = sorted({f"{r.domain}/{r.name}" for launch in profile.launches for r in launch.nvtx})
    if ranges:
        yield f"NVTX ranges: {listed(ranges, _RANGES_NAMED)}"


def _totals(profile: Profile) -> Iterator[Sentence]:
    """The time of all launches, and the launch that takes most of it."""
    known = [(d.value, x) for x in profile.launches if (d := x.get("duration")) and d.value > 0]
    if len(known) < 2:
        return
    longest, launch = max(known, key=lambda pair: pair[0])
    ledger, total = Ledger(), sum(time for time, _ in known)
    share = Quantity(100 * (longest / total), "%")
    yield Sentence(
        "{whole} in all, of which {launch} takes {share:.0f}",
        whole=ledger.derived("duration.total", Quantity(total, "ns"), "time of all launches"),
        launch=f"#{launch.id}",
        share=ledger.derived("duration.longest", share, "share of the longest launch"),
    )


def _coverage(coverage: Coverage) -> Iterator[Block]:
    contains, missing = Span("Contains", "strong"), Span("Missing", "strong")
    items = [Item(", ".join(coverage.present), contains)] if coverage.present else []
    for number, gap in enumerate(coverage.gaps):
        note = " (ncu has none for it here)" if gap.unavailable else ""
        words = (gap.label, Span(f": {gap.gives}{note}", "muted"))
        items.append(Item(words, "" if number else missing))
    if not coverage.gaps:
        items.append(Item("nothing that keet can use", missing))
    yield Items(items)
    if coverage.without_profiling is not None:
        yield Gap()
        yield Text(SOURCES_AT_HAND)
        yield Command(coverage.without_profiling)
    if coverage.command is not None:
        steps = steps_before(coverage.command, coverage.build_hint)
        yield Gap()
        yield Text(f"To capture what is missing{f', {steps}run' if steps else ''}:")
        yield Command(coverage.command)
    elif coverage.obstacle:
        yield Notice(coverage.obstacle)


def _masked_text(profile: Profile) -> str:
    """How many values are masked, and where they can be seen."""
    ranges = dict.fromkeys(each.name for launch in profile.launches for each in launch.nvtx)
    texts = filter(None, (profile.provenance.command_line, *ranges))
    names = [name for text in texts for name in masked_names(text)]
    if not names:
        return "Masked: nothing."
    return Sentence(
        "Masked: {values} that may be secret ({listed}). To see the recorded command line: "
        "ncu --import REPORT --page session",
        values=counted(len(names), "value"),
        listed=", ".join(dict.fromkeys(names)),
    )
