"""The sized cache stays within its limit."""

from __future__ import annotations

from keet.ingest.sized_cache import SizedCache


def test_the_least_recently_used_entry_is_dropped_first() -> None:
    kept: SizedCache[str] = SizedCache(10)
    kept.put("a", "A", 4)
    kept.put("b", "B", 4)
    assert kept.get("a") == "A"
    kept.put("c", "C", 4)
    assert [kept.get(key) for key in "abc"] == ["A", None, "C"]


def test_an_entry_larger_than_the_limit_is_not_cached() -> None:
    kept: SizedCache[str] = SizedCache(10)
    kept.put("a", "A", 10)
    assert kept.put("b", "B", 11) == "B"
    assert [kept.get(key) for key in "ab"] == ["A", None]


def test_dropped_entries_free_their_size() -> None:
    kept: SizedCache[int] = SizedCache(10)
    for number in range(100):
        kept.put(number, number, 5)
    assert [number for number in range(100) if kept.get(number) is not None] == [98, 99]
