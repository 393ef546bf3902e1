"""The view of `keet show` for a terminal: what was profiled, what is known, what is missing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from keet.analysis.capture.coverage import Coverage
from keet.analysis.capture.ncu_options import ncu_arguments
from keet.analysis.capture.profile_notes import profile_notes
from keet.analysis.capture.recapture import made_with
from keet.analysis.hardware.ceilings import Ceilings
from keet.analysis.ledger import LaunchLedger
from keet.documents.show import GapDocument
from keet.explanation.capture_hints import steps_before
from keet.explanation.run_texts import whole_time
from keet.formatting import count_noun, shape_text, share_text
from keet.ingest.ncu_rep.completeness import uncertain_count
from keet.masking.mask import masked_names
from keet.profile import Launch, Profile, RunPositions, Workload
from keet.render.common.device import describe_device
from keet.render.terminal.layout import Group, Renderable, Table, Text
from keet.units import Quantity, format_number

WIDE = 120
"""Columns from which on the shape of a launch is in the same row."""

RUN_ROWS = 20
"""Kernels of the run that are listed."""
_PEAKS = {
    "SM": ("sm_throughput_pct",),
    "L1": (),
    "L2": ("l2_throughput_pct",),
    "DRAM": ("dram_throughput_pct", "fb_throughput_pascal_pct"),
}
"""Columns and their metrics by catalog id; reports of Pascal from 2019 have other names."""


def show_view(
    profile: Profile, coverage: Coverage, launches: Sequence[Launch], width: int, *, cut: int = 0
) -> Group:
    """The report, and a table of the launches in the order given; `cut`: number of launches left
    out."""
    known = profile.in_run if profile.run and profile.run.busy_ns else None
    table = _launch_table(launches, width, known)
    parts: list[Renderable] = [_heading(profile), *_run(profile), table]
    parts += [Text(line, style="dim") for line in _footnotes(profile, cut, width)]
    parts += ["", *_coverage(coverage, width)]
    return Group(*parts)


def masked_view(profile: Profile) -> Group:
    """How many values are masked, and where they can be seen."""
    ranges = dict.fromkeys(each.name for launch in profile.launches for each in launch.nvtx)
    texts = filter(None, (profile.provenance.command_line, *ranges))
    names = [name for text in texts for name in masked_names(text)]
    if not names:
        return Group("", Text("Masked: nothing.", style="dim"))
    where = "To see the recorded command line: ncu --import REPORT --page session"
    masked = f"{count_noun(len(names), 'value')} that may be secret"
    listed = ", ".join(dict.fromkeys(names))
    return Group("", Text(f"Masked: {masked} ({listed}). {where}", style="dim"))


def _heading(profile: Profile) -> Group:
    origin = profile.provenance
    count = len(profile.launches)
    first = Text.assemble(
        (origin.file, "bold"),
        f": {count:,} {'launch' if count == 1 else 'launches'}",
        f" on {', '.join(describe_device(device) for device in profile.devices)}",
    )
    made = [
        f"ncu {origin.ncu_version}" if origin.ncu_version else "ncu version not recorded",
        f"CUDA {origin.cuda_version}" if origin.cuda_version else None,
        f"driver {origin.driver_version}" if origin.driver_version else None,
        origin.created[:16].replace("T", " ") + " UTC" if origin.created else None,
        str(Quantity(origin.size, "byte")),
    ]
    lines = [first, Text(", ".join(part for part in made if part), style="dim")]
    if stated := origin.origin:
        size, digest = Quantity(stated.size, "byte"), stated.sha256
        report = f"{origin.path} ({size}, SHA-256 {digest[:16]}…)"
        lines.append(Text(f"snapshot of {report}, as the snapshot states", style="dim"))
    if command := _command(profile):
        lines.append(Text(command, style="dim"))
    lines += [Text(f"note: {note}", style="yellow") for note in profile_notes(profile)]
    return Group(*lines)


def _command(profile: Profile) -> str | None:
    if (command := made_with(profile)) is not None:
        return f"made with: {command}"
    arguments = ncu_arguments(profile)
    return f"ncu {arguments}" if arguments else None


def _run(profile: Profile) -> Iterator[Renderable]:
    from keet.explanation.whole_run import whole_run
    from keet.render.terminal.whole_run import run_view

    run = whole_run(profile) if profile.run else None
    if run is not None:
        yield ""
        yield from run_view(run, RUN_ROWS)


def _launch_table(
    launches: Iterable[Launch], width: int, positions: RunPositions | None = None
) -> Table:
    wide = width >= WIDE
    table = Table(is_ruled=True, has_edge=True, padding=(0, 1))
    table.add_column("#", justify="right", style="dim", no_wrap=True)
    table.add_column("Kernel", overflow="fold", min_width=12)
    if wide:
        for heading in ("Grid", "Block", "Regs", "Shared"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("Occ. %", justify="right", no_wrap=True)
    table.add_column("Time", justify="right", no_wrap=True)
    for heading in _PEAKS:
        table.add_column(f"{heading} %", justify="right", no_wrap=True)
    if positions:
        table.add_column("Run %", justify="right", no_wrap=True)
    for launch in launches:
        row = _launch_row(launch, wide=wide)
        table.add_row(*row, *([_run_share(launch, positions)] if positions else []))
    return table


def _run_share(launch: Launch, positions: RunPositions) -> str:
    """Share of the run's GPU time in the launches that this one represents."""
    position, whole = positions.of(launch.id), positions.table.busy_ns
    return f"{100 * position.busy_ns / whole:.1f}" if position and whole else "-"


def _launch_row(launch: Launch, *, wide: bool) -> list[Renderable]:
    kernel = Text(launch.kernel, style="bold")
    shape: list[Renderable] = []
    if wide:
        shape = [
            shape_text(launch.grid, "-"),
            shape_text(launch.block, "-"),
            _plain(launch.reported("registers_per_thread")),
            _size(_shared(launch)),
            _one_decimal(launch.reported("achieved_occupancy_pct")),
        ]
    elif launch.workload is Workload.KERNEL:
        kernel.append(f"\n{_shape_line(launch)}", style="dim not bold")
    duration = launch.reported("duration")
    return [
        str(launch.id),
        kernel,
        *shape,
        str(duration) if duration else "-",
        *map(_one_decimal, _peaks(launch)),
    ]


def _peaks(launch: Launch) -> Iterator[Quantity | None]:
    """The values of `keet explain`. ncu's own percentage of L1 is not used: it is over active
    cycles."""
    ceilings = Ceilings(LaunchLedger(launch))
    for unit, metric_ids in _PEAKS.items():
        reached = ceilings.reached(unit)
        reported = next(filter(None, map(launch.reported, metric_ids)), None)
        yield Quantity(reached.value, reached.unit) if reached else reported


def _shape_line(launch: Launch) -> str:
    shape = f"grid {shape_text(launch.grid, '-')}, block {shape_text(launch.block, '-')}"
    registers = launch.reported("registers_per_thread")
    return f"{shape}, {_plain(registers)} regs" if registers else shape


def _shared(launch: Launch) -> Quantity | None:
    """Shared memory that the kernel requests, without what the driver adds."""
    parts = [launch.reported("shared_memory_static"), launch.reported("shared_memory_dynamic")]
    known = [part.value for part in parts if part is not None]
    return Quantity(sum(known), "byte") if known else None


def _plain(quantity: Quantity | None) -> str:
    return "-" if quantity is None else format_number(quantity.value)


def _size(quantity: Quantity | None) -> str:
    return "-" if quantity is None else str(quantity)


def _one_decimal(quantity: Quantity | None) -> str:
    if quantity is None:
        return "-"
    return f"{quantity.value:.1f}" if quantity.value == quantity.value else "n/a"


def _footnotes(profile: Profile, cut: int, width: int) -> list[str]:
    lines = ["% of peak, over elapsed cycles; - means not measured"]
    if profile.run and profile.run.busy_ns:
        whole = whole_time(profile.run)
        lines.append(f"Run %: of {whole}, by the launches that this one represents")
    if width < WIDE:
        more = "also shows shared memory and occupancy"
        lines.append(f"A terminal of {WIDE} columns or more {more}.")
    lines += [] if profile.run else _totals(profile)
    if cut > 0:
        lines.append(f"{cut:,} more launches: --all, --launch N, --kernel REGEX, --sort time")
    if uncertain := uncertain_count(profile):
        lines.append(uncertain)
    if len(profile.devices) > 1:
        lines.append("several GPUs: keet show --format json says which launch ran on which")
    ranges = sorted({f"{r.domain}/{r.name}" for launch in profile.launches for r in launch.nvtx})
    if ranges:
        shown = ", ".join(ranges[:4]) + (", …" if len(ranges) > 4 else "")
        lines.append(f"NVTX ranges: {shown}")
    return lines


def _totals(profile: Profile) -> list[str]:
    """The time of all launches, and the launch that takes most of it."""
    known = [(d.value, x) for x in profile.launches if (d := x.get("duration")) and d.value > 0]
    if len(known) < 2:
        return []
    total = sum(time for time, _ in known)
    longest, launch = max(known, key=lambda pair: pair[0])
    share = share_text(longest / total)
    whole = str(Quantity(total, "ns"))
    return [f"{whole} in all, of which #{launch.id} takes {share}"]


def _coverage(coverage: Coverage, width: int) -> list[Renderable]:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
    if coverage.present:
        grid.add_row("Contains", ", ".join(coverage.present))
    for index, gap in enumerate(coverage.gaps):
        grid.add_row("Missing" if index == 0 else "", _gap_line(gap))
    if not coverage.gaps:
        grid.add_row("Missing", "nothing that keet can use")
        return [grid]
    if coverage.command is None:
        obstacle = [Text(coverage.obstacle, style="yellow")] if coverage.obstacle else []
        return [grid, *obstacle]
    parts: list[Renderable] = [grid, ""]
    steps = steps_before(coverage.command, coverage.build_hint)
    parts.append(Text(f"To capture what is missing{f', {steps}run' if steps else ''}:"))
    return [*parts, *command_view(coverage.command, width)]


def command_view(command: str, width: int) -> list[Renderable]:
    """A command on separate lines, so that it can be copied."""
    # A word longer than the terminal is not wrapped by keet, so that it can be copied.
    return [
        Text(line, style="cyan", no_wrap=True, overflow="ignore")
        for line in _shell_lines(command, width)
    ]


def _shell_lines(command: str, width: int) -> list[str]:
    """Breaks a long command at places where a shell continues it, so that it can be copied."""
    lines: list[str] = []
    line = " "
    for word in _WORD.findall(command):
        if len(line) + 1 + len(word) > width - 2 and line.strip():
            lines.append(f"{line} \\")
            line = "     "
        line += f" {word}"
    return [*lines, line]


_WORD = re.compile(
    r"""--(?:section|set|import-source)\ \S+ | (?: "[^"]*" | '[^']*' | [^\s"'] )+ | \S+""",
    re.VERBOSE,
)
"""A word of a command: quoted text stays together, and an option keeps its value."""


def _gap_line(gap: GapDocument) -> Text:
    line = Text(gap.label)
    note = " (ncu has none for it here)" if gap.unavailable else ""
    line.append(f": {gap.gives}{note}", style="dim")
    return line
