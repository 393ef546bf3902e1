"""SASS text is the same from the cache or the child, with or without a prefetch."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from keet.profile import Absent, Profile
from keet.report import disassembler, read_profile
from tests.conftest import CORPUS, REPORTS
from tests.kept_reports import sample_report, unpacked

needs_reader = pytest.mark.skipif(
    disassembler.installed_version() is None, reason="no ncu-report here"
)
TOUR = REPORTS / "tour_full.ncu-repz"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Empty for each test."""
    monkeypatch.setenv("KEET_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The launches of each request to the child."""
    questions: list[list[str]] = []
    start = disassembler._start

    def counting(data: bytes, question: dict[str, Any]) -> Any:
        questions.append(sorted(question["addresses"]))
        return start(data, question)

    monkeypatch.setattr(disassembler, "_start", counting)
    return questions


def code_of(profile: Profile, most: int = 6) -> list[Any]:
    return [launch.disassembly for launch in profile.launches[:most]]


def is_text(code: Sequence[Any]) -> bool:
    return bool(code) and not any(isinstance(each, Absent) for each in code)


MOVED = [sample_report("gas_state"), TOUR]
SAMPLES = [
    *MOVED,
    *(REPORTS / f"{name}.ncu-repz" for name in ("graph", "metrics_only")),
    *(path for name in ("NCAR", "bwd29") for path in sorted(CORPUS.glob(f"{name}*"))),
]
"""Of every kind: each is read several times, and the first ones are changed, too."""


def fetched(data: bytes, like: list[Any]) -> list[Any]:
    """What the reader says of the same addresses."""
    addresses = {n: list(code) for n, code in enumerate(like)}
    return list(disassembler.Disassembly(data, addresses).texts().values())


@needs_reader
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parent.name}-{path.name}"[:40])
@pytest.mark.slow
def test_cached_text_equals_fetched_text(path: Path, asked: list, tmp_path: Path) -> None:
    """Also of the report with other addresses: what the cache makes of the text is what the reader
    says."""
    profile = read_profile(path)
    here, questions = code_of(profile), len(asked)
    assert code_of(read_profile(path)) == here
    assert len(asked) == questions
    if path in MOVED:
        data, shift = moved(unpacked(path), profile)
        copy = tmp_path / "moved.ncu-rep"
        copy.write_bytes(data)
        assert is_text(here)
        there = code_of(read_profile(copy))
        assert len(asked) == questions
        assert [min(code) for code in there] == [min(code) + shift for code in here]
        assert there == fetched(data, there)


def moved(data: bytes, profile: Profile) -> tuple[bytes, int]:
    """The report as if the process had had its code elsewhere; addresses are numbers of 7 bytes."""
    address = profile.launches[0].data.addresses()[0]  # type: ignore[attr-defined]
    top = address >> 28
    encoded, other = (bytes([t & 127 | 128, t >> 7 & 127 | 128, t >> 14]) for t in (top, top - 99))
    assert address >> 42, "shorter than 7 bytes"
    pattern = re.compile(rb"([\x80-\xff]{4})" + re.escape(encoded), re.DOTALL)
    return pattern.sub(lambda match: match[1] + other, data), -99 << 28


@needs_reader
@pytest.mark.slow
def test_text_is_shared_between_two_runs_of_a_program(asked: list) -> None:
    """tour_lines and tour_full, two reports of one program in two processes."""
    code_of(read_profile(TOUR))
    questions = len(asked)
    profile = read_profile(REPORTS / "tour_lines.ncu-repz")
    found = code_of(profile)
    assert len(asked) == questions
    assert found == fetched(profile.launches[0].data._report.file.source.data, found)  # type: ignore[attr-defined]
    assert any("BRA 0x" in text for code in found for text in code.values())


@needs_reader
@pytest.mark.slow
def test_prefetched_text_needs_no_second_request(asked: list, cache: Path) -> None:
    """Of some launches only those are fetched, and of all only functions that are not cached."""
    some = read_profile(TOUR)
    some.prefetch_code(some.launches[1:2])
    some.prefetch_code(some.launches[1:3])
    assert asked == [["1"], ["2"]]
    some.prefetch_code(some.launches)
    some.prefetch_code(some.launches)
    code = code_of(some)
    assert is_text(code)
    assert asked == [["1"], ["2"], ["0"]]
    asked.clear()
    assert len(list((cache / "code").iterdir())) == 3
    for questions in ([], [["2"]]):
        profile = read_profile(TOUR)
        profile.prefetch_code(profile.launches)
        assert (code_of(profile), asked) == (code, questions)
        max((cache / "code").iterdir(), key=lambda path: path.stat().st_size).unlink()


def test_prefetch_without_code_or_the_package_does_nothing(
    asked: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report without values per instruction, and formats other than reports."""
    profile = read_profile(REPORTS / "metrics_only.ncu-repz")
    profile.prefetch_code(profile.launches)
    (code,) = set(code_of(profile))
    assert isinstance(code, Absent)
    assert "SourceCounters" in code.remedy
    exported = read_profile(REPORTS / "tour_lines.csv")
    exported.prefetch_code(exported.launches)
    monkeypatch.setattr(disassembler, "find_spec", lambda name: None)
    profile = read_profile(TOUR)
    profile.prefetch_code(profile.launches)
    code = profile.launches[0].disassembly
    assert isinstance(code, Absent)
    assert (code.remedy, asked) == ("pip install ncu-report", [])


@pytest.mark.slow
def test_a_failure_gives_no_text_and_is_not_cached(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "child.py"
    script.write_text('print(\'{"0": {"x": "NOP"}, "1": {}, "2": {}}\')')
    monkeypatch.setattr(disassembler, "_CHILD", script)
    monkeypatch.setattr("keet.report.disassembler.reader_identity", lambda: "1")
    profile = read_profile(TOUR)
    profile.prefetch_code(profile.launches)
    for launch in profile.launches:
        assert isinstance(launch.disassembly, Absent)
        assert "parsed" in launch.disassembly.reason
    assert not cache.exists()


@needs_reader
@pytest.mark.slow
def test_a_cache_that_can_not_be_used_is_ignored(
    tmp_path: Path, asked: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_text([read_profile(TOUR).launches[2].disassembly])
    monkeypatch.setattr("keet.report.disassembler.reader_identity", lambda: "2027.1")
    assert is_text([read_profile(TOUR).launches[2].disassembly])
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KEET_CACHE", str(tmp_path / "file"))
    assert is_text([read_profile(TOUR).launches[2].disassembly])
    assert asked == [["2"]] * 3


@pytest.mark.slow
def test_the_seed_of_the_test_cache_equals_fetched_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m tests.seed_code` writes it again."""
    path = sample_report("key_count")
    kept = [launch.disassembly for launch in read_profile(path).launches]
    monkeypatch.setenv("KEET_CODE_CACHE", "0")
    assert [launch.disassembly for launch in read_profile(path).launches] == kept
