"""The view of `keet show` for a terminal: what was profiled, what is known, what is missing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from keet.analysis.capture.coverage import Coverage, ShownLaunch
from keet.analysis.capture.recapture import made_with, ncu_arguments
from keet.analysis.capture.report_document import profile_notes
from keet.analysis.hardware.ceilings import Ceilings
from keet.analysis.ledger import LaunchLedger, Ledger
from keet.documents.show import GapDocument, ShowLaunch
from keet.evidence import Sentence, constant, counted
from keet.explanation.capture_hints import steps_before
from keet.explanation.run_texts import whole_time
from keet.formatting import shape_text
from keet.ingest.ncu_rep.completeness import uncertain_count
from keet.masking import masked_names
from keet.pages.device import describe_device
from keet.profile import Profile
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
    profile: Profile,
    coverage: Coverage,
    launches: Sequence[ShownLaunch],
    width: int,
    *,
    cut: int = 0,
) -> Group:
    """The report, and a table of the launches in the order given; `cut`: number of launches left
    out."""
    has_run = bool(profile.run and profile.run.busy_ns and profile.in_run)
    table = _launch_table(launches, width, has_run=has_run)
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
    text = Sentence(
        "Masked: {values} that may be secret ({listed}). To see the recorded command line: "
        "ncu --import REPORT --page session",
        values=counted(len(names), "value"),
        listed=", ".join(dict.fromkeys(names)),
    )
    return Group("", Text(text, style="dim"))


def _heading(profile: Profile) -> Group:
    origin = profile.provenance
    devices = ", ".join(describe_device(device) for device in profile.devices)
    launches = counted(len(profile.launches), "launch")
    about = Sentence(": {launches} on {devices}", launches=launches, devices=devices)
    first = Text.assemble((origin.file, "bold"), about)
    made = [
        f"ncu {origin.ncu_version}" if origin.ncu_version else "ncu version not recorded",
        f"CUDA {origin.cuda_version}" if origin.cuda_version else None,
        f"driver {origin.driver_version}" if origin.driver_version else None,
        origin.created[:16].replace("T", " ") + " UTC" if origin.created else None,
        Sentence("{size}", size=constant(origin.size, "byte", "size of the report")),
    ]
    lines = [first, Text(Sentence(", ").join(filter(None, made)), style="dim")]
    if stated := origin.origin:
        text = Sentence(
            "snapshot of {path} ({size}, {digest}…), as the snapshot states",
            path=origin.path,
            size=constant(stated.size, "byte", "size of the report"),
            digest=f"SHA-256 {stated.sha256[:16]}",
        )
        lines.append(Text(text, style="dim"))
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


def _launch_table(launches: Iterable[ShownLaunch], width: int, *, has_run: bool) -> Table:
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
    if has_run:
        table.add_column("Run %", justify="right", no_wrap=True)
    for launch in launches:
        row = _launch_row(launch, wide=wide)
        share = launch.run_share_pct if has_run else None
        table.add_row(*row, *(["-" if share is None else f"{share:.1f}"] if has_run else []))
    return table


def _launch_row(launch: ShownLaunch, *, wide: bool) -> list[Renderable]:
    kernel = Text(launch.kernel, style="bold")
    shape: list[Renderable] = []
    if wide:
        shape = [
            shape_text(launch.grid, "-"),
            shape_text(launch.block, "-"),
            _plain(launch.values.get("registers_per_thread")),
            _size(_shared(launch)),
            _one_decimal(launch.values.get("achieved_occupancy_pct")),
        ]
    elif launch.workload == "kernel":
        kernel.append(f"\n{_shape_line(launch)}", style="dim not bold")
    duration = launch.values.get("duration")
    return [
        str(launch.id),
        kernel,
        *shape,
        str(duration) if duration else "-",
        *map(_one_decimal, _peaks(launch)),
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


def _shape_line(launch: ShowLaunch) -> str:
    shape = f"grid {shape_text(launch.grid, '-')}, block {shape_text(launch.block, '-')}"
    registers = launch.values.get("registers_per_thread")
    return f"{shape}, {_plain(registers)} regs" if registers else shape


def _shared(launch: ShowLaunch) -> Quantity | None:
    """Shared memory that the kernel requests, without what the driver adds."""
    parts = map(launch.values.get, ("shared_memory_static", "shared_memory_dynamic"))
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
        lines.append(
            Sentence(
                "A terminal of {wide:d} columns or more also shows shared memory and occupancy.",
                wide=constant(WIDE, "", "columns"),
            )
        )
    lines += [] if profile.run else _totals(profile)
    if cut > 0:
        lines.append(
            Sentence(
                "{cut:,d} more launches: --all, --launch N, --kernel REGEX, --sort time",
                cut=constant(cut, "", "launches left out"),
            )
        )
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
    longest, launch = max(known, key=lambda pair: pair[0])
    ledger, total = Ledger(), sum(time for time, _ in known)
    share = Quantity(100 * (longest / total), "%")
    text = Sentence(
        "{whole} in all, of which {launch} takes {share:.0f}",
        whole=ledger.derived("duration.total", Quantity(total, "ns"), "time of all launches"),
        launch=f"#{launch.id}",
        share=ledger.derived("duration.longest", share, "share of the longest launch"),
    )
    return [text]


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
