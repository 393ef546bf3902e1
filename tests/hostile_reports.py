"""Real reports with texts changed inside: names, paths, sources and messages that attack a reader.

A report is taken apart down to the fields that are changed, and put together again with the right
lengths, so that everything else in it stays as ncu wrote it.
"""

from collections.abc import Callable, Mapping

from keet.report.ncu_rep.container import EntryKind
from tests import encode
from tests.fuzz.report_tree import BYTES, encoded, fields_of, taken_apart

ATTACK = (
    "\x1b[31m\x1b]0;title\x07 \x9b2J \u202elatot\u202c \u2066x\u2069 \u200f\u061c \u2028 \u2029 \u200b"
    "\x7f \r \x08\x08 \ufeff \U000e0041\U000e0042"
)
"""What a terminal would obey: colours, its title, C1, bidi marks, line ends, deletion, tags."""

Change = Callable[[bytes], bytes]


def changed(message: bytes, changes: Mapping[int, Change]) -> bytes:
    """The message with the content of these fields changed, in every place that they stand."""
    return encoded(
        each._replace(payload=changes[each.number](each.payload))  # type: ignore[arg-type]
        if each.kind == BYTES and each.number in changes
        else each
        for each in fields_of(message)
    )


def inside(changes: Mapping[int, Change]) -> Change:
    """A change of fields of a message that is a field itself."""
    return lambda message: changed(message, changes)


def with_changes(
    data: bytes, header: Mapping[int, Change], entries: Mapping[EntryKind, Change]
) -> bytes:
    """The report with its block headers and entries changed."""
    tree = taken_apart(data)
    for block in tree.blocks:
        block.header = fields_of(changed(encoded(block.header), header))
    for entry in tree.entries:
        if change := entries.get(entry.kind):
            entry.fields = fields_of(change(encoded(entry.fields)))
    return tree.encoded()


def nvtx_of(data: bytes) -> bytes:
    """The NVTX state of the first launch."""
    fields = (field for entry in taken_apart(data).results for field in entry.fields)
    return next(field.payload for field in fields if field.number == 21)  # type: ignore[return-value]


def attacked(
    data: bytes,
    nvtx: bytes,
    attack: str = ATTACK,
    name: str | None = None,
    file: bytes = b"\x1b[1m.cu",
) -> bytes:
    """A report whose kernel, process, files, sources, NVTX ranges, rules, command line and one
    metric attack whoever prints them. `name`: of the first launch's kernel; the others keep theirs,
    with the attack. `file`: in place of tour.cu, and as long."""
    assert len(file) == len(b"tour.cu")
    raw = attack.encode("utf-8", "surrogatepass")
    end: Change = lambda text: text + raw  # noqa: E731
    rest = iter([name.encode("utf-8", "surrogatepass")] * 3 if name else ())
    names: Change = lambda text: next(rest, text + raw)  # noqa: E731
    open_ranges = {2: inside({2: inside({3: inside({1: end})})}), 3: inside({3: inside({2: end})})}
    state = changed(nvtx, {1: inside({2: end}), **open_ranges})
    rule = inside({2: end, 3: inside({1: inside({1: inside({1: end, 4: end})})})})
    result = {5: names, 6: names, 7: names, 19: rule}
    lines = {2: lambda text: text.replace(b"\n", b" // " + raw + b"\n")}
    strings = inside({1: lambda text: text + raw if text == b"launch__stack_size" else text})
    changed_report = with_changes(
        data,
        {3: inside({11: end}), 4: strings, 6: inside({3: end})},
        {
            EntryKind.KERNEL: lambda entry: changed(entry, result) + encode.chunk(21, state),
            EntryKind.SOURCE: lambda entry: changed(entry, {8: inside({1: inside(lines)})}),
        },
    )
    # In the cubin's table of lines too, where lengths can't change.
    return changed_report.replace(b"tour.cu", file)
