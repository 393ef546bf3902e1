"""Reports that were cut between two blocks: which cuts are detected, and which can't be."""

import json
import shlex
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.errors import IngestError
from keet.report import read_profile
from keet.report.ncu_rep.container import EntryKind, _words, asked_launches, blocks_of
from tests.conftest import REPORTS, TESTS, Keet, corpus_files, needs_corpus
from tests.kept_reports import unpacked
from tests.rows import each_row

RUNS = TESTS / "data" / "runs"
SAMPLES = TESTS.parent / "kernels_samples"
SEVERAL = ["tour_basic.ncu-repz", "processes.ncu-repz"]


def cuts(data: bytes) -> Iterator[tuple[int, str]]:
    """Each position between two blocks, and the content of the block before it."""
    for block, following in pairwise(blocks_of(data, Path("x"))):
        kinds = {entry.kind for entry in block.entries}
        code = EntryKind.SOURCE in kinds
        yield following.start, "code" if code else "launch" if kinds else "session"


def seen_in(path: Path) -> str:
    """What keet says of a cut report."""
    try:
        notes = read_profile(path).provenance.notes
    except IngestError:
        return "refused"
    return "noted" if any("cut short between launches" in note for note in notes) else "silent"


@pytest.mark.slow
@each_row("name", SEVERAL)
def test_every_detectable_cut_gives_a_note(name: str, tmp_path: Path) -> None:
    """Silent are cuts between two launches after the first, and before the first code that follows
    the session."""
    data, path = unpacked(REPORTS / name), tmp_path / "cut.ncu-rep"
    found = []
    for at, before in cuts(data):
        path.write_bytes(data[:at])
        found.append((before, seen_in(path)))
    first = found.index(("launch", "noted"))
    session = next(n for n in range(first + 1, len(found)) if found[n][0] != "session") - 1
    assert {seen for _, seen in found[:first]} == {"refused"}
    assert {seen for _, seen in found[first:session]} == {"noted"}
    assert found[session] == ("session", "silent")
    for before, seen in found[session + 1 :]:
        assert seen == {"code": "noted", "launch": "silent"}[before]


def test_a_complete_report_has_no_note() -> None:
    paths = [*REPORTS.glob("*.ncu-rep*"), *RUNS.glob("*.ncu-repz"), *SAMPLES.glob("*/*.ncu-rep*")]
    assert len(paths) > 80
    assert [path.name for path in paths if seen_in(path) != "silent"] == []


@needs_corpus
def test_complete_public_reports_have_no_note() -> None:
    endings = (".ncu-rep", ".nsight-cuprof-report")
    reports = [path for path in corpus_files() if path.suffix in endings]
    assert [path.name for path in reports if seen_in(path) == "noted"] == []


@pytest.fixture
def cut_run(tmp_path: Path) -> Path:
    """A report whose last launch is gone, beside the table of its run."""
    path = tmp_path / "waits.ncu-rep"
    data = unpacked(RUNS / "waits.ncu-repz")
    path.write_bytes(data[: list(cuts(data))[-1][0]])
    shutil.copy(RUNS / "waits.run.json", tmp_path)
    return path


@pytest.mark.slow
def test_the_run_table_shows_that_launches_are_missing(cut_run: Path, keet: Keet) -> None:
    whole, other = RUNS / "waits.ncu-repz", RUNS / "managed.ncu-repz"
    count = len(read_profile(whole).launches)
    (note,) = read_profile(cut_run).provenance.notes
    assert f"has {count - 1} of the {count} launches" in note
    assert note in " ".join(keet("show", cut_run).out.split())
    assert note in json.loads(keet("show", cut_run, "--format", "json").out)["report"]["notes"]
    assert note in keet("explain", cut_run, other, "--no-model").err
    assert note in keet("diff", whole, cut_run).err  # a gate is not silent either


def test_a_named_run_table_shows_that_launches_are_missing(cut_run: Path, wording) -> None:
    table = cut_run.with_name("waits.run.json").rename(cut_run.with_name("other.json"))
    (note,) = read_profile(cut_run, run_table=table).provenance.notes
    wording(note)
    assert read_profile(cut_run, run_table=RUNS / "managed.run.json").provenance.notes == ()


@pytest.mark.slow
def test_batch_stores_the_note(cut_run: Path, keet: Keet, tmp_path: Path, wording) -> None:
    wording(keet("batch", cut_run, "-o", tmp_path / "store", "--jobs", 1).out)
    sql = "SELECT status, reason FROM files"
    done = json.loads(keet("query", tmp_path / "store", sql, "--format", "json").out)
    ((status, reason),) = done["rows"]
    assert status == "done"
    wording(reason)


@each_row("name, is_packed, is_told", [
    ("tour_basic.ncu-repz", False, True),
    ("tour_full.ncu-repz", False, False),  # ncu -c 3, and three there are
    ("tour_basic.ncu-repz", True, False),  # a cut file can't be unpacked
])  # fmt: skip
def test_show_says_whether_missing_launches_can_be_detected(
    name: str, is_packed: bool, is_told: bool, tmp_path: Path, keet: Keet
) -> None:
    plain = tmp_path / "report.ncu-rep"
    plain.write_bytes(unpacked(REPORTS / name))
    out = " ".join(keet("show", REPORTS / name if is_packed else plain).out.split())
    assert ("can't tell whether" in out) is is_told


def test_show_says_if_there_are_fewer_launches_than_requested(tmp_path: Path, keet: Keet) -> None:
    data = unpacked(REPORTS / "tour_full.ncu-repz")
    (tmp_path / "cut.ncu-rep").write_bytes(data[: list(cuts(data))[-1][0]])
    assert "2 of at most 3 " in " ".join(keet("show", tmp_path / "cut.ncu-rep").out.split())


def test_the_launch_count_is_read_from_the_command_line() -> None:
    asked = {
        "ncu -c 3 ./app": 3,
        "/opt/ncu --set full -f --launch-count 12 ./app -c 7": 12,
        "ncu --launch-count=5 ./app": 5,
        "ncu --set full ./app -c 7": None,
        'ncu -f --target-processes all bash -c "a; b"': None,
        '"C:\\Program Files\\ncu.exe" -o "a b" -c 2 app.exe': 2,
        "ncu -k regex:a -c x ./app": None,
        "ncu -c": None,
        'ncu "': None,
        None: None,
    }
    assert {line: asked_launches(line) for line in asked} == asked


@given(st.text(alphabet="ab-=\\#;\"'é \t\n\x0b\xa0\u3000", max_size=20))
def test_a_command_line_is_split_like_in_a_shell(line: str) -> None:
    try:
        expected = shlex.split(line, posix=False)
    except ValueError:  # a quote that is not closed
        with pytest.raises(ValueError, match="quotation"):
            _words(line)
    else:
        assert _words(line) == expected
