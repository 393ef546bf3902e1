"""Lazy patterns match like compiled ones."""

from __future__ import annotations

import re
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from keet.lazy_regex import regex

NUMBER = r"(?P<whole>\d+)(\.\d+)?"


@given(st.text(alphabet="12.a B", max_size=12))
def test_a_lazy_pattern_matches_like_a_compiled_one(text: str) -> None:
    late, early = regex(NUMBER, re.IGNORECASE), re.compile(NUMBER, re.IGNORECASE)
    assert late.findall(text) == early.findall(text)
    assert late.sub("x", text) == early.sub("x", text)
    assert bool(late.fullmatch(text)) == bool(early.fullmatch(text))
    assert (late.pattern, late.flags, late.groupindex) == (
        early.pattern,
        early.flags,
        early.groupindex,
    )


def test_a_lazy_pattern_is_compiled_on_first_use() -> None:
    with patch("keet.lazy_regex.re.compile", wraps=re.compile) as compiled:
        late = regex(rb"a+")
        assert not compiled.called
        assert late.search(b"caat")
        assert late.search(b"caat")
        assert compiled.call_count == 1
    assert repr(late) == "re.compile(b'a+')"
