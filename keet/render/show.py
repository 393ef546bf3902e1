"""`keet show` on a terminal: what was profiled, what is known of it, what is missing."""

from __future__ import annotations

import re

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from keet.analysis.coverage import Coverage, Gap, ncu_arguments
from keet.profile import Device, Dim3, Launch, Profile, Workload
from keet.units import Quantity, format_number

WIDE = 120
"""Columns from which a launch gets one row with its shape beside it."""
MAX_ROWS = 40
"""Launches listed unless --all: a report may hold thousands."""

_PEAKS = (
    ("SM", "sm_throughput_pct"),
    ("L1", "l1tex_throughput_pct"),
    ("L2", "l2_throughput_pct"),
    ("DRAM", "dram_throughput_pct"),
)


def show_view(profile: Profile, coverage: Coverage, width: int, *, everything: bool) -> Group:
    limit = None if everything else MAX_ROWS
    parts: list[RenderableType] = [_heading(profile), _launch_table(profile, width, limit)]
    parts += [Text(line, style="dim") for line in _footnotes(profile, limit)]
    parts += ["", *_coverage(coverage, width)]
    return Group(*parts)


def _heading(profile: Profile) -> Group:
    origin = profile.provenance
    count = len(profile.launches)
    first = Text.assemble(
        (origin.snapshot or origin.path, "bold"),
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
    if origin.snapshot:
        lines.append(Text(f"snapshot of {origin.path}", style="dim"))
    arguments = ncu_arguments(profile)
    if arguments:
        lines.append(Text(f"ncu {arguments}", style="dim"))
    lines += [Text(f"note: {note}", style="yellow") for note in origin.notes]
    return Group(*lines)


def describe_device(device: Device) -> str:
    name = device.name or "a GPU that the report does not name"
    details = [
        f"cc {device.compute_capability}" if device.compute_capability else None,
        f"{device.sm_count} SMs" if device.sm_count else None,
    ]
    known = ", ".join(part for part in details if part)
    return f"{name} ({known})" if known else name


def _launch_table(profile: Profile, width: int, limit: int | None) -> Table:
    wide = width >= WIDE
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), expand=False)
    table.add_column("#", justify="right", style="dim", no_wrap=True)
    table.add_column("Kernel", overflow="fold", min_width=12)
    if wide:
        for heading in ("Grid", "Block", "Regs", "Shared"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("Occ. %", justify="right", no_wrap=True)
    table.add_column("Time", justify="right", no_wrap=True)
    for heading, _ in _PEAKS:
        table.add_column(f"{heading} %", justify="right", no_wrap=True)
    for launch in profile.launches[:limit]:
        table.add_row(*_launch_row(launch, wide=wide))
    return table


def _launch_row(launch: Launch, *, wide: bool) -> list[RenderableType]:
    kernel = Text(launch.kernel, style="bold")
    shape: list[RenderableType] = []
    if wide:
        shape = [
            _dims(launch.grid),
            _dims(launch.block),
            _plain(launch.get("registers_per_thread")),
            _size(_shared(launch)),
            _one_decimal(launch.get("achieved_occupancy_pct")),
        ]
    elif launch.workload is Workload.KERNEL:
        kernel.append(f"\n{_shape_line(launch)}", style="dim not bold")
    duration = launch.get("duration")
    return [
        str(launch.id),
        kernel,
        *shape,
        str(duration) if duration else "-",
        *(_one_decimal(launch.get(metric_id)) for _, metric_id in _PEAKS),
    ]


def _shape_line(launch: Launch) -> str:
    shape = f"grid {_dims(launch.grid)}, block {_dims(launch.block)}"
    registers = launch.get("registers_per_thread")
    return f"{shape}, {_plain(registers)} regs" if registers else shape


def _shared(launch: Launch) -> Quantity | None:
    """Shared memory that the kernel asks for; what the driver adds is not its doing."""
    parts = [launch.get("shared_memory_static"), launch.get("shared_memory_dynamic")]
    known = [part.value for part in parts if part is not None]
    return Quantity(sum(known), "byte") if known else None


def _dims(dims: Dim3 | None) -> str:
    """`64×256` for (64, 256, 1): trailing ones say nothing."""
    if dims is None:
        return "-"
    shown = list(dims)
    while len(shown) > 1 and shown[-1] == 1:
        shown.pop()
    return "×".join(str(size) for size in shown)


def _plain(quantity: Quantity | None) -> str:
    return "-" if quantity is None else format_number(quantity.value)


def _size(quantity: Quantity | None) -> str:
    return "-" if quantity is None else str(quantity)


def _one_decimal(quantity: Quantity | None) -> str:
    if quantity is None:
        return "-"
    return f"{quantity.value:.1f}" if quantity.value == quantity.value else "n/a"


def _footnotes(profile: Profile, limit: int | None) -> list[str]:
    lines = ["% of peak, over elapsed cycles (L1: over its active cycles); - is not measured"]
    hidden = len(profile.launches) - (limit or len(profile.launches))
    if hidden > 0:
        lines.append(f"{hidden:,} more launches: keet show --all")
    if len(profile.devices) > 1:
        lines.append("several GPUs: keet show --format json says which launch ran on which")
    ranges = sorted({f"{r.domain}/{r.name}" for launch in profile.launches for r in launch.nvtx})
    if ranges:
        shown = ", ".join(ranges[:4]) + (", …" if len(ranges) > 4 else "")
        lines.append(f"NVTX ranges: {shown}")
    return lines


def _coverage(coverage: Coverage, width: int) -> list[RenderableType]:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
    if coverage.present:
        grid.add_row("Holds", ", ".join(coverage.present))
    for index, gap in enumerate(coverage.gaps):
        grid.add_row("Lacks" if index == 0 else "", _gap_line(gap))
    if not coverage.gaps:
        grid.add_row("Lacks", "nothing that keet can use")
        return [grid]
    if coverage.command is None:
        return [grid]
    parts: list[RenderableType] = [grid, ""]
    if coverage.build_hint:
        parts.append(Text(f"To capture what is missing, build with {coverage.build_hint} and run:"))
    else:
        parts.append(Text("To capture what is missing:"))
    parts += [Text(line, style="cyan") for line in _shell_lines(coverage.command, width)]
    return parts


def _shell_lines(command: str, width: int) -> list[str]:
    """A long command broken where a shell can be told to read on, so that it can be copied."""
    lines: list[str] = []
    line = " "
    # An option stays with its value: `--section X` is not torn apart.
    for word in re.findall(r"--section \S+|\S+", command):
        if len(line) + 1 + len(word) > width - 2 and line.strip():
            lines.append(f"{line} \\")
            line = "     "
        line += f" {word}"
    return [*lines, line]


def _gap_line(gap: Gap) -> Text:
    line = Text(gap.label)
    note = " (ncu has none for it here)" if gap.unavailable else ""
    line.append(f": {gap.gives}{note}", style="dim")
    return line
