"""Writes valid `.ncu-rep` files of any size: copies of real launches, one after the other on disk.

    python -m tests.giant_reports OUT --launches 100000 --kernels 40
    python -m tests.giant_reports OUT --set full --bytes 5000000000 --kernels 20

Launches of the kernels follow each other in turn. Each has a duration of its own, up to 10 % above
that of the real launch; everything else is as ncu wrote it. A kernel that is needed more often than
the real reports have kernels gets a number behind its name.
"""

import struct
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

from keet.report.ncu_rep.container import PROCESS, ContainerBlock, EntryKind, blocks_of
from keet.report.protobuf import ProtoMessage, fields
from tests import encode
from tests.hostile_reports import changed
from tests.kept_reports import unpacked
from tests.many_launches import DURATION, _metric_names

ROOT = Path(__file__).parents[1]
REPORTS = ROOT / "tests" / "data" / "reports"
SETS: dict[str, Callable[[], list[Path]]] = {
    "small": lambda: [REPORTS / "metrics_only.ncu-repz"],
    "basic": lambda: [REPORTS / "tour_basic.ncu-repz"],
    "full": lambda: sorted((ROOT / "kernels_samples").glob("*/slow.ncu-rep*")),
}
"""Real reports to copy: launches of 14 kB (few metrics, no rules), 54 kB (set basic) and 100 to
500 kB (set full with source and code)."""
_BUFFER = 4 << 20
_NAMES = (5, 6, 7)
_METRICS, _METRIC_NAME, _METRIC_VALUE, _DOUBLE = 13, 1, 2, 3


class Template(NamedTuple):
    """A block with one launch, split at its duration."""

    before: bytes
    duration: float
    after: bytes

    def with_duration(self, number: int) -> bytes:
        spread = 1 + number * 7919 % 1000 / 10_000
        return self.before + struct.pack("<d", self.duration * spread) + self.after


def write_giant(
    out: Path, *, launches: int = 0, size: int = 0, kernels: int = 4, kind: str = "small"
) -> int:
    """Writes a report with at least so many launches and bytes, and returns how many launches it
    has. The launches of the first real report come first, as they are."""
    reports = _alike([unpacked(path) for path in SETS[kind]()])
    blocks = [blocks_of(data, Path()) for data in reports]
    templates = list(_templates(reports, blocks, kernels))
    with out.open("wb", buffering=_BUFFER) as file:
        file.write(reports[0])
        for data, of_report in list(zip(reports, blocks))[1:]:
            file.write(b"".join(_code(data, of_report, _program(blocks[0]))))
        for number in count(sum(map(_results, blocks[0]))):
            if number >= launches and file.tell() >= size:
                return number
            file.write(templates[number % kernels].with_duration(number))
    raise AssertionError("count ends never")


def _alike(reports: Sequence[bytes]) -> list[bytes]:
    """Those that number their metrics as the first one does: results refer to names by number."""
    names = _metric_names(blocks_of(reports[0], Path()))
    return [data for data in reports if _metric_names(blocks_of(data, Path())) == names]


def _results(block: ContainerBlock) -> int:
    return sum(entry.kind is EntryKind.KERNEL for entry in block.entries)


def _program(blocks: Sequence[ContainerBlock]) -> bytes:
    return (ProtoMessage(blocks[0].process or b"").text(3) or "").encode()


def _process(block: ContainerBlock, program: bytes) -> bytes:
    """Of the first report's program, with the process id of its own report: references to code are
    told apart by it."""
    return encode.chunk(PROCESS, changed(block.process or b"", {3: lambda _: program}))


def _code(data: bytes, blocks: Sequence[ContainerBlock], program: bytes) -> Iterator[bytes]:
    for block in blocks:
        found = [data[e.start : e.stop] for e in block.entries if e.kind is EntryKind.SOURCE]
        if found:
            yield encode.block({EntryKind.SOURCE: found}, _process(block, program))


def _templates(
    reports: Sequence[bytes], blocks: Sequence[Sequence[ContainerBlock]], kernels: int
) -> Iterator[Template]:
    number = list(_metric_names(blocks[0])).index(DURATION)
    real = [
        (block, data[entry.start : entry.stop])
        for data, of_report in zip(reports, blocks)
        for block in of_report
        for entry in block.entries
        if entry.kind is EntryKind.KERNEL
    ]
    for at in range(kernels):
        block, entry = real[at % len(real)]
        copy = at // len(real)
        yield _template(_renamed(entry, copy), number, _process(block, _program(blocks[0])))


def _renamed(entry: bytes, copy: int) -> bytes:
    """Another kernel: `copy` behind the function's name, also where the parameters follow."""
    if not copy:
        return entry
    new = f"_{copy}".encode()
    (function,) = (entry[a:b] for number, a, b in fields(entry) if number == 6)
    named = lambda text: text.replace(function, function + new, 1)  # noqa: E731
    return changed(entry, dict.fromkeys(_NAMES, named))


def _template(entry: bytes, duration: int, process: bytes) -> Template:
    block = encode.block({EntryKind.KERNEL: [entry]}, process)
    at = len(block) - len(entry) + _double_of(entry, duration)
    return Template(block[:at], struct.unpack_from("<d", block, at)[0], block[at + 8 :])


def _double_of(entry: bytes, metric: int) -> int:
    """Where the value of a metric lies in a launch."""
    for number, start, stop in fields(entry):
        if number == _METRICS:
            parts = {part: (value, end) for part, value, end in fields(entry, start, stop)}
            if parts[_METRIC_NAME][0] == metric:
                inner = {part: value for part, value, _ in fields(entry, *parts[_METRIC_VALUE])}
                return inner[_DOUBLE]
    raise ValueError("the launch has no duration")


def main() -> None:
    parser = ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--launches", type=int, default=0, help="at least so many")
    parser.add_argument("--bytes", type=int, default=0, help="at least so many")
    parser.add_argument("--kernels", type=int, default=4)
    parser.add_argument("--set", choices=sorted(SETS), default="small", help="of the launches")
    args = parser.parse_args()
    number = write_giant(
        args.out, launches=args.launches, size=args.bytes, kernels=args.kernels, kind=args.set
    )
    sys.stdout.write(f"{args.out}: {number:,} launches, {args.out.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main()
