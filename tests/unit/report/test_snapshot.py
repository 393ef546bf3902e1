"""Snapshots: everything is read back, and the file is readable."""

import hashlib
import json
import math
from copy import copy
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.public_reports import NOT_FOUND
from keet.errors import DamagedReport, IngestError, UnknownFormat, UnsupportedVersion
from keet.profile import (
    Device,
    KernelName,
    Launch,
    Origin,
    Profile,
    Provenance,
    RawMetric,
    Workload,
)
from keet.report import read_profile
from keet.report.input import zstd
from keet.report.snapshot import (
    InMemoryLaunch,
    packed_document,
    read_snapshot,
    snapshot_text,
    unpacked_document,
    write_snapshot,
)
from keet.safe_text import bounded_line
from tests.conftest import CORPUS, REPORTS
from tests.rows import each_row

DICTIONARY = "b6aaf065b9cc90a3f8578dbcf8d17be8bb5f883dbc25304fad9defee91c2680f"
STRANGERS = [
    CORPUS / f"{name}--profile.ncu-rep"
    for name in ("thedavidchu__speedy_scan", "yzwang2000__cudaCode")
]
NAMES = ["tour_lines.ncu-repz", "nvtx.ncu-repz", "range.ncu-rep", "tour_lines.csv"]


def facts(launch: Launch) -> dict[str, object]:
    """All of a launch, in a form that compares (NaN is itself here)."""
    return {
        "identity": (launch.id, launch.name, launch.workload, launch.grid, launch.block),
        "origin": (launch.process, launch.stream, launch.context, launch.device),
        "metrics": {n: repr(launch.data.metric(n)) for n in sorted(launch.metric_names())},
        "instances": {n: repr(launch.instances(n)) for n in sorted(launch.metric_names())},
        "rules": repr(launch.rules),
        "markers": launch.markers,
        "nvtx": launch.nvtx,
        "sections": launch.sections,
        "source": (dict(launch.source_files), dict(launch.locations), launch.disassembly),
    }


def assert_round_trip(path: Path, target: Path) -> None:
    """Size and hash are those of the file that was read, the origin is the report."""
    profile = read_profile(path)
    write_snapshot(profile, target)
    back, content, report = read_profile(target), target.read_bytes(), profile.provenance
    assert back.provenance == report._replace(
        snapshot=str(target),
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        origin=Origin(report.size, report.sha256),
    )
    for before, after in zip(profile.launches, back.launches, strict=True):
        assert facts(before) == facts(after)


@each_row("name", NAMES)
def test_a_snapshot_has_everything_of_its_report(name: str, tmp_path: Path) -> None:
    assert_round_trip(REPORTS / name, tmp_path / "out.keet.json")


@each_row("path", [REPORTS / NAMES[1], REPORTS / NAMES[3], *STRANGERS])
@pytest.mark.slow
def test_a_packed_snapshot_has_everything_of_its_report(path: Path, tmp_path: Path) -> None:
    if not path.exists():
        pytest.skip(NOT_FOUND)
    packed = tmp_path / "out.keet.json.zst"
    assert_round_trip(path, packed)
    assert packed.stat().st_size < sum(map(len, snapshot_text(read_profile(path)))) / 5


def test_a_snapshot_has_one_line_per_metric() -> None:
    """A changed metric is one changed line in a diff."""
    text = "".join(snapshot_text(read_profile(REPORTS / "metrics_only.ncu-repz")))
    lines = [line.strip() for line in text.splitlines()]
    durations = [line for line in lines if line.startswith('"gpu__time_duration.sum":')]
    assert len(durations) == 4
    assert all(line.count(":") == 1 for line in durations)
    assert max(len(line) for line in lines if "__attribute" in line) < 120


def a_profile(value: object) -> Profile:
    data = InMemoryLaunch(Device(None, None, None), {"m": RawMetric(value)})  # type: ignore[arg-type]
    name = KernelName("k", "k()", "")
    launch = Launch(number=0, name=name, workload=Workload.KERNEL, grid=None, block=None, data=data)
    return Profile((launch,), Provenance("p", "ncu-rep", 1, "0" * 64, "keet"))


@given(st.one_of(st.floats(), st.integers(-(2**64), 2**64), st.text(), st.none()))
def test_every_value_is_read_back(value: object) -> None:
    text = "".join(snapshot_text(a_profile(value)))
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    back = read_snapshot(text, Path("x"), len(text), "0" * 64).launches[0].data.metric("m").value
    assert type(back) is type(value)
    value = bounded_line(value) if isinstance(value, str) else value
    assert back == value or (isinstance(value, float) and math.isnan(value) and math.isnan(back))


GOOD = "".join(snapshot_text(a_profile(1.5)))


@each_row("text, error, says", [
    (GOOD[:-5], DamagedReport, "damaged"),
    (GOOD.replace('"keet_snapshot": 1', '"keet_snapshot": 2'), UnsupportedVersion, "version 2"),
    (GOOD.replace('"workload": "kernel"', '"workload": "poem"'), DamagedReport, "workload"),
    (GOOD.replace('"id": 0', '"id": 7'), DamagedReport, "numbered from 0"),
    (GOOD.replace('"m": 1.5', '"m": ["nan", 3]'), DamagedReport, "metrics"),
    (GOOD.replace('"format": "ncu-rep"', '"format": "x"'), DamagedReport, "provenance.format"),
    (GOOD.replace('"size": 1', f'"size": {10**400}'), DamagedReport, "more than 64 bits"),
    (GOOD.replace('"reader": "keet', '"reader": "\\ud800'), DamagedReport, "not Unicode"),
    (GOOD.replace('"stream": null', '"stream": NaN'), DamagedReport, "NaN is not valid JSON"),
    ('{"keet_snapshot": 1}', DamagedReport, "provenance"),
    ('{"keet_snapshot": 1, "a": ' + "[" * 100_000, DamagedReport, "damaged"),
    ('{"keet_snapshot": true}', DamagedReport, "must be an integer, not true"),
    ('{"keet_snapshot": 1, "packed": 1.0}', DamagedReport, "must be an integer, not 1.0"),
    (f'{{"keet_snapshot": 1{"0" * 5000}}}', DamagedReport, "an integer of too many digits"),
])  # fmt: skip
def test_damaged_snapshots_are_refused(text: str, error: type, says: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.keet.json"
    path.write_text(text)
    with pytest.raises(error, match=says) as caught:
        read_profile(path)
    assert isinstance(caught.value, IngestError)


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    class Failing:
        def __getattr__(self, name: str):
            raise KeyboardInterrupt

    profile = a_profile(1)
    profile.launches[0].data = Failing()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        write_snapshot(profile, tmp_path / "x.keet.json")
    assert list(tmp_path.iterdir()) == []


# --- packed


@pytest.fixture(autouse=True)
def pack_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hardest level takes half a second per file, and what it packs is read the same way."""
    level = int(zstd.zstd.CompressionParameter.compression_level)
    monkeypatch.setattr(zstd, "_PACKED", {**zstd._PACKED, level: 3})


def test_the_dictionary_never_changes() -> None:
    """Existing packed snapshots can't be read without it: a better one gets its own file."""
    content = zstd.zstd.decompress(zstd._DICTIONARY.read_bytes())
    assert hashlib.sha256(content).hexdigest() == DICTIONARY


def test_a_packed_snapshot_that_is_cut_is_refused(tmp_path: Path) -> None:
    packed = tmp_path / "out.keet.json.zst"
    write_snapshot(read_profile(REPORTS / "nvtx.ncu-repz"), packed)
    data = packed.read_bytes()
    for size in (5, 20, len(data) // 2, len(data) - 1):
        packed.write_bytes(data[:size])
        with pytest.raises(DamagedReport, match="cut short"):
            read_profile(packed)


def with_another_dictionary(text: bytes) -> bytes:
    trained = zstd.zstd.ZstdDict(b"something else " * 99, is_raw=True)
    other = zstd.zstd.finalize_dict(trained, [b"some text"] * 9, 4096, 3)
    return zstd.zstd.compress(text, zstd_dict=other)


NOTES = "compressed with zstd, but is not a report"


@each_row("pack, text, error, says", [
    (with_another_dictionary, b'{"keet_snapshot": 1}', DamagedReport, "it needs dictionary"),
    (zstd.zstd.compress, b"these are notes", UnknownFormat, NOTES),
    (zstd.packed, b'{"keet_snapshot": 1, "packed": 2}', UnsupportedVersion, "in version 2"),
    (zstd.packed, b'{"keet_snapshot": 1, "packed": 1, "\xff": 1}', DamagedReport, "not UTF-8"),
])  # fmt: skip
def test_other_compressed_text_is_refused(
    pack, text: bytes, error: type[Exception], says: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.keet.json.zst"
    path.write_bytes(pack(text))
    with pytest.raises(error, match=says):
        read_profile(path)


names = st.text("abcxyz_.", min_size=1, max_size=8)
cells = st.none() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3)
ids = st.lists(st.integers(-(2**63), 2**64))
odd_ids = st.lists(st.integers() | st.text(max_size=3) | st.booleans())
values = st.fixed_dictionaries({"ids": st.none() | ids | odd_ids, "values": st.lists(cells)})
addresses = st.integers(0, 2**48).map(str)
no_code = st.just({"reason": "no code", "remedy": "none"})
launches = st.fixed_dictionaries(
    {
        "id": st.integers(0, 9),
        "metrics": st.dictionaries(names, cells),
        "instances": st.dictionaries(names, values),
        "locations": st.dictionaries(addresses, st.tuples(names, st.integers(1, 999)).map(list)),
        "disassembly": st.dictionaries(addresses, names) | no_code,
    }
)


@given(st.lists(launches, max_size=3))
@pytest.mark.slow
def test_packing_and_unpacking_gives_the_same_document(some: list[dict[str, object]]) -> None:
    document = {"keet_snapshot": 1, "launches": some}
    packed = json.loads(json.dumps(packed_document(document)))
    back = unpacked_document(packed)
    assert json.dumps(back, sort_keys=True) == json.dumps(document, sort_keys=True)


@each_row("change", [
    {"id_lists": []},
    {"id_lists": [{"steps": ["x"]}]},
    {"metrics": {"names": ["a", "b"], "values": [1]}},
    {"instances": {"names": ["a"], "ids": [7], "values": [[1]]}},
    {"locations": {"ids": 0, "files": [], "file": [3], "line": [1]}},
    {"disassembly": None},
    {"metrics": 7},
])  # fmt: skip
def test_a_wrongly_packed_snapshot_is_damaged(change: dict[str, object], tmp_path: Path) -> None:
    launch = {
        "metrics": {},
        "instances": {"a": {"ids": [1], "values": [1]}},
        "locations": {"16": ["f", 1]},
        "disassembly": {"16": "NOP"},
    }
    packed = packed_document({"keet_snapshot": 1, "provenance": {}, "launches": [launch]})
    packed["launches"][0].update(change)
    path = tmp_path / "x.keet.json.zst"
    path.write_bytes(zstd.packed(json.dumps(packed).encode()))
    with pytest.raises(DamagedReport):
        read_profile(path)


@pytest.mark.slow
def test_a_hundred_equal_launches_are_read_back(tmp_path: Path) -> None:
    """They compress a thousand to one, more than any report."""
    profile, path = read_profile(REPORTS / "nvtx.ncu-repz"), tmp_path / "many.keet.json.zst"
    same = [copy(profile.launches[0]) for _ in range(100)]
    for number, launch in enumerate(same):
        launch.id = number
    write_snapshot(Profile(tuple(same), profile.provenance), path)
    assert len(read_profile(path).launches) == 100
