"""Damage to the messages of a report: bytes that can be read, and numbers that can't be true."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from functools import cache
from random import Random

from keet.catalog import metric_named
from keet.report.protobuf import Malformed
from tests.encode import Scalar, number
from tests.fuzz.bad_values import bad_number, bad_scalar, bad_text, near
from tests.fuzz.byte_damage import KINDS as BYTE_KINDS
from tests.fuzz.report_tree import (
    BYTES,
    FIXED64,
    VARINT,
    Entry,
    Field,
    Metric,
    ReportTree,
    encoded,
    fields_of,
    text_field,
)

ReportDamage = Callable[[ReportTree, Random], None]
"""Changes the tree in place."""

_GRID, _BLOCK = 10, 11
_NAMES = (5, 6, 7)
_CUBIN, _FILES, _RELOCATIONS = 4, 8, 9
_SESSION = 3


@cache
def _is_read(name: str) -> bool:
    """Whether keet's catalog knows the metric: of two thousand, those that analyses look at."""
    return metric_named(name) is not None


def _result(tree: ReportTree, rng: Random) -> Entry:
    return rng.choice(tree.results)


def _chosen_metrics(entry: Entry, rng: Random) -> list[int]:
    """One to five metrics, mostly of those that keet reads."""
    places = entry.metric_places
    if rng.random() < 0.85:
        places = [at for at in places if _is_read(entry.name_at(at))] or places
    return rng.sample(places, min(len(places), rng.choice((1, 1, 2, 3, 5))))


def bad_metrics(tree: ReportTree, rng: Random) -> None:
    entry = _result(tree, rng)
    for at in _chosen_metrics(entry, rng):
        entry.put(at, entry.metric(at).with_value(bad_scalar(rng)))


def scaled_metrics(tree: ReportTree, rng: Random) -> None:
    entry = _result(tree, rng)
    for at in _chosen_metrics(entry, rng):
        metric = entry.metric(at)
        entry.put(at, metric.with_value(near(rng, metric.value)))


def many_bad_metrics(tree: ReportTree, rng: Random) -> None:
    """A part of all metrics, each with its own value."""
    entry, share = _result(tree, rng), rng.choice((0.05, 0.3, 0.7))
    for at in entry.metric_places:
        if rng.random() < share:
            entry.put(at, entry.metric(at).with_value(bad_scalar(rng)))


def same_bad_metrics(tree: ReportTree, rng: Random) -> None:
    """All numbers of a launch, or all whose name has one start or end, with one value."""
    entry, value = _result(tree, rng), bad_number(rng)
    part = rng.choice(("", "sm__", "smsp__", "l1tex__", "lts__", "dram__", "gpu__", "launch__"))
    part = rng.choice((part, ".sum", "pct_of_peak_sustained_elapsed", "per_second", "cycles"))
    for at in entry.metric_places:
        if part in entry.name_at(at) and not isinstance(entry.metric(at).value, str):
            entry.put(at, entry.metric(at).with_value(value))


def zero_launch(tree: ReportTree, rng: Random) -> None:
    """Every number and every instance is zero: nothing was counted."""
    entry = _result(tree, rng)
    for at in entry.metric_places:
        metric = entry.metric(at)
        if not isinstance(metric.value, str):
            entry.put(at, _all_instances(metric.with_value(0.0), lambda _: 0.0))


def missing_metrics(tree: ReportTree, rng: Random) -> None:
    """Metrics left out: a few, or nearly all."""
    entry, share = _result(tree, rng), rng.choice((0.02, 0.3, 0.9))
    chosen = set(_chosen_metrics(entry, rng))
    gone = {at for at in entry.metric_places if at in chosen or rng.random() < share}
    entry.fields = [each for at, each in enumerate(entry.fields) if at not in gone]
    entry.__dict__.pop("metric_places", None)


def _instanced(entry: Entry, rng: Random) -> int | None:
    """A metric with instances."""
    long = [at for at in entry.metric_places if len(entry.fields[at].payload) > 40]  # type: ignore[arg-type]
    rng.shuffle(long)
    return next((at for at in long[:20] if entry.metric(at).instances), None)


def _all_instances(metric: Metric, change: Callable[[Scalar], Scalar]) -> Metric:
    for at in metric.instances:
        identity, value = metric.instance(at)
        metric = metric.with_instance(at, identity, change(value))
    return metric


def bad_instances(tree: ReportTree, rng: Random) -> None:
    """One value in all instances of a metric, or bad ones in some of them."""
    entry = _result(tree, rng)
    value, share = bad_number(rng), rng.choice((0.01, 0.2, 1.0))
    for _ in range(rng.choice((1, 1, 4))):
        at = _instanced(entry, rng)
        if at is None:
            return
        everywhere = share == 1.0
        change = (lambda _: value) if everywhere else _sometimes(rng, share)
        entry.put(at, _all_instances(entry.metric(at), change))


def _sometimes(rng: Random, share: float) -> Callable[[Scalar], Scalar]:
    return lambda value: bad_scalar(rng) if rng.random() < share else value


def bad_addresses(tree: ReportTree, rng: Random) -> None:
    """What instances belong to: no address, a double, a text, the same one for all."""
    entry = _result(tree, rng)
    at = _instanced(entry, rng)
    if at is None:
        return
    metric, same = entry.metric(at), rng.random() < 0.3
    identity = bad_scalar(rng)
    for place in metric.instances:
        known, value = metric.instance(place)
        if same or rng.random() < 0.2:
            metric = metric.with_instance(place, identity if same else bad_scalar(rng), value)
        elif rng.random() < 0.1 and isinstance(known, int):
            metric = metric.with_instance(place, known ^ 1 << rng.randrange(64), value)
    entry.put(at, metric)


def fewer_instances(tree: ReportTree, rng: Random) -> None:
    """Instances lost or doubled: columns of a table that have other lengths."""
    entry = _result(tree, rng)
    at = _instanced(entry, rng)
    if at is None:
        return
    metric = entry.metric(at)
    some = set(rng.sample(metric.instances, len(metric.instances) // 2))
    fields = [each for place, each in enumerate(metric.fields) if place not in some]
    doubled = [*metric.fields, *(metric.fields[place] for place in some)]
    entry.put(at, Metric(metric.name, tuple(rng.choice((fields, doubled)))))


def bad_shape(tree: ReportTree, rng: Random) -> None:
    """A grid or block of nothing, or larger than any."""
    entry = _result(tree, rng)
    sizes = [rng.choice((0, 1, 2**31 - 1, 2**63, 2**64 - 1)) for _ in "xyz"]
    shape = b"".join(number(axis, size) for axis, size in enumerate(sizes, 1))
    which = rng.choice((_GRID, _BLOCK))
    kept = [each for each in entry.fields if each.number != which]
    entry.fields = kept if rng.random() < 0.2 else [*kept, Field(which, BYTES, shape)]
    entry.__dict__.pop("metric_places", None)
    _spoil(entry, rng, "launch__")


def bad_device(tree: ReportTree, rng: Random) -> None:
    """Attributes of the GPU: zero, NaN, a text, not there."""
    for entry in tree.results:
        _spoil(entry, rng, "device__attribute_")


def _spoil(entry: Entry, rng: Random, start: str) -> None:
    """Some metrics whose names start so."""
    share = rng.choice((0.05, 0.5, 1.0))
    for at in entry.metric_places:
        if entry.name_at(at).startswith(start) and rng.random() < share:
            entry.put(at, entry.metric(at).with_value(bad_scalar(rng)))


def bad_names(tree: ReportTree, rng: Random) -> None:
    """Kernel names with control characters, of nothing, of a megabyte."""
    entry, text = _result(tree, rng), bad_text(rng)
    numbers = rng.choice((_NAMES, _NAMES[:1], _NAMES[1:2], _NAMES[2:]))
    entry.fields = [
        text_field(each.number, text) if each.number in numbers else each for each in entry.fields
    ]


def bad_metric_names(tree: ReportTree, rng: Random) -> None:
    """The table of names: other names, doubled ones, lost ones."""
    for block in tree.blocks:
        for at, each in enumerate(block.header):
            if each.number == 4 and isinstance(each.payload, bytes):
                names = fields_of(each.payload)
                place = rng.randrange(len(names)) if names else 0
                names[place : place + 1] = rng.choice(
                    ([text_field(1, bad_text(rng))], [], names[place : place + 1] * 2, names[:1])
                )
                block.header[at] = Field(4, BYTES, encoded(names))


def bad_code(tree: ReportTree, rng: Random) -> None:
    """Cubins, source files and addresses of functions."""
    if not tree.code:
        return
    entry = rng.choice(tree.code)
    which = rng.choice((_CUBIN, _CUBIN, _FILES, _RELOCATIONS))
    for at, each in enumerate(entry.fields):
        if each.number == which and isinstance(each.payload, bytes) and each.payload:
            spoil = rng.choice(list(BYTE_KINDS.values()))
            payload = spoil(each.payload, rng) if which == _CUBIN else _walked(each.payload, rng)
            entry.fields[at] = each._replace(payload=payload)


def lost_code(tree: ReportTree, rng: Random) -> None:
    for block in tree.blocks:
        block.entries = [e for e in block.entries if e.kind != 1 or rng.random() < 0.5]


def bad_order(tree: ReportTree, rng: Random) -> None:
    """Results doubled, lost or moved to another block."""
    block = rng.choice(tree.blocks)
    if not block.entries:
        return
    entry = rng.choice(block.entries)
    action = rng.randrange(3)
    if action:
        block.entries.remove(entry)
    if action != 1:
        rng.choice(tree.blocks).entries.append(entry.copy())


def bad_field(tree: ReportTree, rng: Random) -> None:
    """Any field of any result, however deep: rules, sections, NVTX ranges."""
    entry = rng.choice(tree.entries)
    others = [at for at, f in enumerate(entry.fields) if f.number != entry.metric_field]
    for at in rng.sample(others, min(len(others), rng.choice((1, 2, 6)))):
        entry.fields[at] = _changed(entry.fields[at], rng)


def bad_session(tree: ReportTree, rng: Random) -> None:
    for block in tree.blocks:
        for at, each in enumerate(block.header):
            if each.number == _SESSION and rng.random() < 0.7:
                block.header[at] = _changed(each, rng)


def _changed(each: Field, rng: Random) -> Field:
    """A field with another value; in a message, one of its fields."""
    if each.kind == VARINT:
        return each._replace(payload=rng.choice((0, 1, 2**31, 2**63, 2**64 - 1)))
    if each.kind == FIXED64:
        value = float(bad_number(rng))
        return each._replace(payload=struct.pack("<d", value))
    assert isinstance(each.payload, bytes)
    if each.kind != BYTES:
        return each._replace(payload=rng.choice((b"\0\0\xc0\x7f", b"\0\0\x80\x7f", bytes(4))))
    if rng.random() < 0.1:
        return text_field(each.number, bad_text(rng))
    return each._replace(payload=_walked(each.payload, rng))


def _walked(data: bytes, rng: Random) -> bytes:
    """A message with one of its fields changed; a text that is none with a byte changed."""
    try:
        fields = fields_of(data)
    except Malformed:
        fields = []
    if not fields:
        return BYTE_KINDS["flip"](data, rng) if data else b"x"
    at = rng.randrange(len(fields))
    fields[at] = _changed(fields[at], rng)
    return encoded(fields)


def wrong_sums(tree: ReportTree, rng: Random) -> None:
    """Shares above all there is, and totals below their parts."""
    entry = _result(tree, rng)
    for at in entry.metric_places:
        name = entry.name_at(at)
        if ("pct" in name or name.endswith(".ratio")) and rng.random() < 0.3:
            entry.put(at, entry.metric(at).with_value(rng.choice((1e6, -50.0, 100.1, math.nan))))


_ALL: tuple[ReportDamage, ...] = (
    *(bad_metrics, scaled_metrics, many_bad_metrics, same_bad_metrics, zero_launch),
    *(missing_metrics, bad_instances, bad_addresses, fewer_instances, bad_shape, bad_device),
    *(bad_names, bad_metric_names, bad_code, lost_code, bad_order, bad_field, bad_session),
    wrong_sums,
)
KINDS = {kind.__name__: kind for kind in _ALL}
