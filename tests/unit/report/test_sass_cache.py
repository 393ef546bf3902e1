"""The SASS cache: text is found by the hash of its code, at any address, and is never wrong."""

import json
import os
import stat
import subprocess
import sys
import zlib
from pathlib import Path
from unittest.mock import Mock

import pytest

from keet.report.cubin import Function
from keet.report.disassembler import SassCache, open_cache
from tests.rows import each_row

START = 0x7F0ABF7A0000
LINES = (
    "S2R R0, SR_TID.X",
    "BSSY B0, {0:#x}",
    "@P0   BRA {1:#x}",
    "IMAD.WIDE.U32 R2, R8, 0x3e0f83e1, RZ",
    "CALL.REL.NOINC {2:#x}",
    "RET.REL.NODEC R4, {0:#x}",
    "BRA `(.L_x_0) {3:#x}",
)
"""Real ones, with the targets left out."""


def function(start: int = START, identity: str | None = "abc kernel", **changes) -> Function:
    made = Function(start, range(start, start + 16 * len(LINES), 16), identity, movable=True)
    return made._replace(**changes)


def code(start: int = START) -> dict[int, str]:
    targets = start, start + 16, start + 48, start + 96
    return {start + 16 * at: line.format(*targets) for at, line in enumerate(LINES)}


@pytest.fixture
def cache(tmp_path: Path) -> SassCache:
    return SassCache(tmp_path / "deep" / "code", "2026.3.1")


def entries(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "deep" / "code").iterdir())


def test_stored_text_is_found_at_any_address(cache: SassCache, tmp_path: Path) -> None:
    assert cache.find(function()) is None
    assert not (tmp_path / "deep").exists()
    cache.store(function(), code())
    for start in (START, 0x110131BE00, START + 0x5500, 0x7FFFFFFFF000):
        assert cache.find(function(start)) == code(start)
    (entry,) = entries(tmp_path)
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600
    assert stat.S_IMODE(entry.parent.stat().st_mode) == 0o700


@each_row("line, start", [
    ("CALL.REL.NOINC 0x7f0abf7b0000", START),  # into another function
    ("BRX R2 -0x7f0abf7b0010", START),  # a large number that is no address of the function
    ("MOV R1, <+10>", START),  # looks like an entry's own mark
    ("MOV R1, 0x0", 0x1000),  # code so low that a constant could be an address
])  # fmt: skip
def test_text_that_can_not_be_moved_is_found_at_its_address_only(
    cache: SassCache, line: str, start: int
) -> None:
    texts = code(start) | {start: line}
    cache.store(function(start), texts)
    assert cache.find(function(start)) == texts
    assert cache.find(function(start + 0x100)) is None
    moved = code(start + 0x100)
    cache.store(function(start + 0x100), moved)
    assert cache.find(function(start + 0x100)) == moved


def test_every_part_of_the_key_matters(cache: SassCache, tmp_path: Path) -> None:
    """Code without a cubin has none. Code outside of functions is not moved."""
    cache.store(function(identity=None), code())
    assert cache.find(function(identity=None)) is None
    assert not (tmp_path / "deep").exists()
    cache.store(function(movable=False), code())
    assert cache.find(function(movable=False)) == code()
    assert cache.find(function(START + 256, movable=False)) is None
    cache.store(function(), code())
    assert cache.find(function(identity="abd kernel")) is None
    assert SassCache(tmp_path / "deep" / "code", "2026.4.0").find(function()) is None


@pytest.mark.parametrize("gone", [START, START + 96])
def test_a_part_of_a_function_is_not_cached(cache: SassCache, gone: int) -> None:
    texts = code()
    del texts[gone]
    cache.store(function(), texts)
    cache.store(function(), code() | {gone: "two\nlines"})
    assert cache.find(function()) is None


def test_a_damaged_entry_is_ignored_and_replaced(
    cache: SassCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut anywhere, with other content, or larger than any text, unpacked."""
    monkeypatch.setattr("keet.report.disassembler._MAX_TEXT", 10_000)
    cache.store(function(), code())
    (entry,) = entries(tmp_path)
    raw = entry.read_bytes()
    whole = json.loads(zlib.decompress(raw))
    wrong = ({"text": "NOP"}, {"text": 7}, {"text": None}, {"start": "x"}, {"key": "?"})
    texts = [json.dumps(whole | changes).encode() for changes in wrong]
    texts += [b"{", b"[]", b"[" * 100_000, b'"\xff"', json.dumps(whole).encode() + b" " * 20_000]
    cut = (raw[:size] for size in range(0, len(raw), 7))
    for content in (b"garbage", *map(zlib.compress, texts), *cut):
        entry.write_bytes(content)
        assert cache.find(function()) is None, content[:100]
    cache.store(function(), code())
    assert cache.find(function()) == code()


def test_an_entry_under_another_key_is_ignored(cache: SassCache, tmp_path: Path) -> None:
    cache.store(function(), code())
    (mine,) = entries(tmp_path)
    cache.store(function(identity="other"), code())
    (other,) = {*entries(tmp_path)} - {mine}
    other.write_bytes(mine.read_bytes())
    assert cache.find(function(identity="other")) is None


def test_the_least_recently_used_entries_are_removed(tmp_path: Path) -> None:
    """The most recently read entry is removed last. Half-written files count like entries."""
    folder = tmp_path / "code"
    SassCache(folder, "r").store(function(), code())
    size = next(folder.iterdir()).stat().st_size
    cache = SassCache(folder, "r", limit=5 * size + 100)
    names = [f"kernel {number}" for number in range(4)]
    for number, name in enumerate(names):
        cache.store(function(identity=name), code())
        os.utime(cache._path(name), (1000 + number, 1000 + number))
    (folder / "notes.txt").write_bytes(bytes(2 * size))  # is not keet's
    (folder / "dead.partial").write_bytes(bytes(size))
    os.utime(folder / "dead.partial", (1, 1))
    assert cache.find(function(identity=names[0])) == code()
    cache.store(function(identity="last"), code())
    left = [name for name in [*names, "last"] if cache.find(function(identity=name))]
    assert {names[0], "last"} <= {*left}
    assert names[1] not in left
    assert not (folder / "dead.partial").exists()
    assert sum(path.stat().st_size for path in folder.glob("*.sass")) <= 5 * size + 100
    SassCache(folder, "r", limit=10).store(function(), code())
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_a_full_disk_or_a_folder_that_can_not_be_created_is_ignored(
    cache: SassCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    nowhere = SassCache(tmp_path / "file" / "code", "r")
    monkeypatch.setattr(Path, "replace", Mock(side_effect=OSError(28, "No space left on device")))
    for each in (nowhere, cache):
        each.store(function(), code())
        assert each.find(function()) is None
    assert entries(tmp_path) == []


WRITER = """
import sys
from pathlib import Path
from tests.unit.report.test_sass_cache import code, function
from keet.report.disassembler import SassCache
cache = SassCache(Path(sys.argv[1]), "r", limit=2000)
for round in range(15):
    for name in "abcdefgh":
        found = cache.find(function(identity=name))
        assert found in (None, code()), found
        cache.store(function(identity=name), code())
"""


@pytest.mark.slow
def test_concurrent_processes_find_correct_text(tmp_path: Path) -> None:
    """With such a small limit that each removes the entries of others."""
    running = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path / "code")]) for _ in range(3)
    ]
    assert [process.wait() for process in running] == [0, 0, 0]
    left = list((tmp_path / "code").iterdir())
    assert left
    assert all(path.suffix == ".sass" for path in left)


@each_row("word", ["0", "off", "No"])
def test_the_cache_can_be_switched_off(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KEET_CODE_CACHE", raising=False)
    assert open_cache("r") is not None
    monkeypatch.setenv("KEET_CODE_CACHE", word)
    assert open_cache("r") is None
