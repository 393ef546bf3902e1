"""Instances are decoded many at once, with the same result as one by one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.report.ncu_rep.metrics import MetricPlaces, MetricTable, NameTable
from keet.report.protobuf import Malformed
from tests.encode import chunk as field
from tests.encode import double as fixed
from tests.encode import number
from tests.rows import each_row

ADDRESS = 0x7F41_2BD3_0000


def whole(value: int) -> bytes:
    return number(5, value)


def table_of(*metrics: bytes, names: Sequence[str] = ("m",)) -> MetricTable:
    """Metrics as a launch has them: fields of one number, one behind the other."""
    data = b"".join(field(13, metric) for metric in metrics)
    places = MetricPlaces()
    assert not data or places.read(data, 0, len(data)) == len(data)
    return MetricTable(data, places, NameTable(names))


def instances(*parts: bytes) -> object:
    """Of a metric with a value, these parts, and what newer versions of ncu write behind them."""
    data = b"\x08\x00" + field(2, whole(5)) + b"".join(field(3, part) for part in parts) + b"\x20\0"
    return table_of(data).instances("m")


def part(identity: bytes, value: bytes) -> bytes:
    return field(1, identity) + field(2, value)


def test_instances_of_many_forms_are_decoded() -> None:
    """Addresses over the 14 bits that they share the rest of, values of one to five bytes."""
    pairs = [(ADDRESS + 16 * i, 7 ** (i % 11)) for i in range(3000)]
    found = instances(*(part(whole(i), whole(v)) for i, v in pairs))
    assert list(found.pairs()) == pairs  # type: ignore[attr-defined]


def test_ids_that_are_not_addresses_are_decoded() -> None:
    """If one instance has no id there are none."""
    parts = [
        (part(field(1, b"FFMA"), fixed(3, 0.5)), ("FFMA", 0.5)),
        (part(fixed(3, 3.0), whole(1)), (3, 1)),
        (field(2, whole(9)) + field(1, whole(ADDRESS)), (ADDRESS, 9)),
        (part(whole(ADDRESS + 16), b""), (ADDRESS + 16, None)),
        (part(whole(0), whole(0)), (0, 0)),
    ]
    found = instances(*(raw for raw, _ in parts))
    assert list(found.pairs()) == [pair for _, pair in parts]  # type: ignore[attr-defined]
    found = instances(part(whole(ADDRESS), whole(1)), field(2, whole(2)))
    assert (found.values, found.ids) == ((1, 2), None)  # type: ignore[attr-defined]
    long = [f"HMMA.16816.F32.{number}" for number in range(10, 30)]
    found = instances(*(part(field(1, each.encode()), whole(1)) for each in long))
    assert found.ids == tuple(long)  # type: ignore[attr-defined]


@each_row("first, other, read", [
    (1 << 55, fixed(3, 3.0), 3),
    (1 << 14, whole(5) + whole(7), 7),  # of two numbers the last counts
    (1 << 62, field(1, b"FFMA.FTZ"), "FFMA.FTZ"),
])  # fmt: skip
def test_ids_of_one_length_and_several_forms_are_decoded(
    first: int, other: bytes, read: object
) -> None:
    ids = [first + number for number in range(20)]
    for raw in (whole(first + 20), other):
        assert len(raw) == len(whole(first))
        found = instances(*(part(whole(each), whole(1)) for each in ids), part(raw, whole(1)))
        assert found.ids == (*ids, first + 20 if raw != other else read)  # type: ignore[attr-defined]


def name(at: int, *rest: bytes) -> bytes:
    return number(1, at) + b"".join(rest)


def double(value: float) -> bytes:
    return field(2, fixed(3, value))


NAMES = [f"metric_{number}" for number in range(3000)]


VALUES = st.none() | st.integers(0, 2**40) | st.floats(allow_nan=False)
METRICS = st.tuples(st.integers(0, len(NAMES) - 1), VALUES, st.booleans())


@given(st.lists(METRICS, max_size=60))
def test_metrics_are_found_between_metrics_of_other_forms(
    metrics: list[tuple[int, int | float | None, bool]],
) -> None:
    """Runs of doubles, which are read at once, between metrics of other forms and without a value;
    of a name that occurs twice the last counts."""
    raw, expected = [], {}
    for at, value, is_new in metrics:
        kept = b"" if value is None else double(value) if isinstance(value, float) else b""
        kept = field(2, whole(value)) if isinstance(value, int) else kept
        raw.append(name(at, kept, b"\x20\0" if is_new else b""))
        expected[NAMES[at]] = value
    table = table_of(*raw, names=NAMES)
    found = {each: table.get(each) for each in table.names()}
    assert {each: metric.value for each, metric in found.items() if metric} == expected
    assert table.get("another") is None


@each_row(
    "damaged", [b"", b"\x08", b"\x10\x00", b"\x08\x85", name(7), name(1 << 14), b"\x08\xff\xff\x01"]
)
def test_a_metric_with_an_unknown_name_number_is_malformed(damaged: bytes) -> None:
    with pytest.raises(Malformed):
        table_of(name(0, double(1.0)), damaged, name(1, double(2.0)), names=["a", "b"])


def test_equal_columns_are_decoded_once_and_a_wrong_length_is_malformed() -> None:
    column = [part(whole(ADDRESS + 16 * i), whole(i)) for i in range(20)]
    assert instances(*column) is instances(*column)
    assert instances(*column[:19]) != instances(*column)
    good = column[0]
    with pytest.raises(Malformed):
        instances(good, good[:1] + bytes((good[1] + 9,)) + good[2:])
