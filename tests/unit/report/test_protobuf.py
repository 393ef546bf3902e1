"""Protobuf's wire format: messages are read back, and other bytes are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.report.protobuf import Malformed, ProtoMessage, fields, varint
from tests.encode import chunk, double, number
from tests.encode import varint as encode_varint

u64 = st.integers(0, 2**64 - 1)


values = u64 | st.binary(max_size=300) | st.floats(allow_nan=False)
ENCODERS = {int: number, bytes: chunk, float: double}


@given(st.lists(st.tuples(st.integers(1, 500), values)))
def test_messages_are_read_back(content: list) -> None:
    encoded = b"".join(ENCODERS[type(v)](n, v) for n, v in content)
    message = ProtoMessage(encoded)
    for value in (v for _, v in content if isinstance(v, int)):
        one = encode_varint(value)
        assert varint(one, 0) == (value, len(one))
    for n in {n for n, _ in content}:
        values = [v for key, v in content if key == n]
        assert message.numbers(n) == [v for v in values if isinstance(v, int)]
        chunks = [encoded[a:b] for a, b in message.spans(n)]
        assert [c for c in chunks if c in values] == [v for v in values if isinstance(v, bytes)]
    assert len(list(fields(encoded))) == len(content)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_malformed(data: bytes) -> None:
    """Both parsers agree on what is a message."""
    try:
        listed = len(list(fields(data)))
    except Malformed:
        with pytest.raises(Malformed):
            ProtoMessage(data)
    else:
        message = ProtoMessage(data)
        assert listed == sum(len(spans) for spans in message._spans.values())


def test_a_field_of_another_type_is_malformed_and_the_last_value_counts() -> None:
    with pytest.raises(Malformed):
        ProtoMessage(number(3, 7)).text(3)
    with pytest.raises(Malformed):
        ProtoMessage(chunk(3, b"x")).number(3)
    assert ProtoMessage(number(1, 4) + number(1, 5)).number(1) == 5
