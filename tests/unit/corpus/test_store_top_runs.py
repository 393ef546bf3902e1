"""`keet top` where the whole run is known: times of the run, kept apart from single launches. Cases
of one GPU are in test_store_top.py."""

import csv
import io
import itertools
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keet.corpus.top import Selection
from tests.conftest import Keet
from tests.unit.corpus.store_rows import Cells, add_reports, in_run, launches, of_run
from tests.unit.corpus.test_store_top import NONE, found_in, gpu


def test_times_are_of_the_run(tmp_path: Path) -> None:
    """The first takes longer under the profiler, and stands for less of the run."""
    small = in_run(1000.0, 5.0, duration_us=900.0, plain_us=800.0)
    large = in_run(6000.0, 60.0, kernel="j", top_forecast=1.5)
    add_reports(tmp_path, {"r": of_run(3000.0, small, large)})
    top = found_in(tmp_path)
    assert (top.reports, top.runs, top.launches, top.time_us) == (1, 1, 2, 7000.0)
    run = {"basis": "run", "runs": 1, "run_launches": 65.0, "not_profiled_us": 3000.0}
    assert top.gpus == [gpu(2, 7000.0, 10_000.0, **run)]
    told = [(each.kernel, each.time_us, each.share, each.saved_us, each.saved_share) for each in top.opportunities]  # fmt: skip
    assert told == [("j", 6000.0, 0.6, 2000.0, 0.2), ("k", 1000.0, 0.1, 500.0, 0.05)]
    counts = [(each.basis, each.run_launches) for each in top.opportunities]
    assert counts == [("run", 60.0), ("run", 5.0)]


@pytest.mark.slow
def test_runs_and_single_launches_are_kept_apart(tmp_path: Path, keet: Keet) -> None:
    """Also of the same kernel and shape on the same GPU, and in each format."""
    run = of_run(500.0, in_run(1500.0), in_run(6000.0, kernel="j", top_forecast=None))
    add_reports(tmp_path, {"r": run, "p": launches({"plain_us": None}, {"duration_us": 300.0})})
    top = found_in(tmp_path)
    assert (top.reports, top.runs, top.launches, top.time_us) == (2, 1, 4, None)
    gpus = [
        (gpu.basis, gpu.runs, gpu.time_us, gpu.total_us, gpu.not_profiled_us) for gpu in top.gpus
    ]
    assert gpus == [("run", 1, 7500.0, 8000.0, 500.0), ("reports", 0, 400.0, 400.0, None)]
    told = [(each.kernel, each.basis, each.share, each.saved_share) for each in top.opportunities]
    first = [("j", "run", 0.75, None), ("k", "run", 0.1875, 0.09375)]
    assert told == [*first, ("k", "reports", 1.0, 0.5)]
    document = json.loads(page(tmp_path, keet, "--format", "json"))
    assert (document["runs"], document["reports"], document["time_us"]) == (1, 2, None)
    assert [(gpu["basis"], gpu["not_profiled_us"]) for gpu in document["gpus"]] == [
        (basis, missed) for basis, *_, missed in gpus
    ]
    of_json = [(each["basis"], each["run_launches"]) for each in document["opportunities"]]
    assert of_json == [("run", 10.0), ("run", 10.0), ("reports", None)]
    rows = list(csv.DictReader(io.StringIO(page(tmp_path, keet, "--format", "csv"))))
    names = ("basis", "run_launches", "saved_of_us", "unknown_us")
    cells = [tuple(row[name] for name in names) for row in rows]
    assert cells[1:] == [("run", "10.0", "1500.0", "0.0"), ("reports", "", "400.0", "")]


@pytest.mark.slow
def test_the_limit_is_for_each_list_and_shares_are_of_the_whole_run(tmp_path: Path) -> None:
    """Runs do not push out what is known of single launches only."""
    runs = [in_run(1e6 * n, kernel=name, kernel_full=name) for n, name in enumerate("abc", 1)]
    single = launches(*({"kernel": name, "kernel_full": f"{name}()"} for name in "ab"))
    add_reports(tmp_path, {"r": of_run(4e6, *runs), "p": single})
    top = found_in(tmp_path, Selection(limit=2))
    assert top.groups == 5
    told = [(each.kernel, each.basis) for each in top.opportunities]
    assert told == [("c", "run"), ("b", "run"), ("a", "reports"), ("b", "reports")]
    chosen = found_in(tmp_path, Selection(kernel=re.compile("^c$")))
    assert [(each.kernel, each.share) for each in chosen.opportunities] == [("c", 0.3)]
    assert (chosen.time_us, chosen.gpus[0].total_us, chosen.runs) == (3e6, 1e7, 1)


# --- arithmetic

TIME = st.floats(0.0, 1e6).map(lambda us: round(us, 3))
"""A store rounds times: a made-up one of 0.0703125 us would differ from its stored share."""
LAUNCH = st.tuples(
    st.sampled_from("jk"),
    TIME,
    st.sampled_from([None, 1.5, 4.0]),
    st.booleans(),
    st.none() | st.floats(0.0, 1.0),
)
REPORT = st.tuples(st.lists(LAUNCH, min_size=1, max_size=4), TIME, st.booleans())


@settings(max_examples=4, deadline=None)
@given(st.lists(REPORT, min_size=2, max_size=8))
@pytest.mark.slow
def test_groups_and_what_is_not_profiled_add_up(tmp_path_factory, reports: list) -> None:
    made = {}
    for number, (described, missed, known) in enumerate(reports):
        cells: list[Cells] = []
        for name, time, gain, gap, alike in described:
            run: Cells = {"duration_us": time}
            if known:
                like = None if alike is None else alike * time
                run = in_run(time, plain_us=900.0 if gap else 100.0, run_alike_us=like)
            cells.append({"kernel": name, "top_forecast": gain, **run})
        made[str(number)] = of_run(missed, *cells) if known else launches(*cells)
    out = tmp_path_factory.mktemp("store")
    add_reports(out, made)
    top = found_in(out, Selection(limit=None))
    for its in top.gpus:
        mine = [each for each in top.opportunities if each.basis == its.basis]
        spent = sum(each.time_us or 0.0 for each in mine)
        assert its.time_us == pytest.approx(spent)
        assert its.total_us == pytest.approx(spent + (its.not_profiled_us or 0.0))
        assert sum(each.launches for each in mine) == its.launches
        assert sum(each.replay_gaps for each in mine) == its.replay_gaps
        for each in mine:
            applies, unknown = each.saved_of_us or 0.0, each.unknown_us or 0.0
            assert (each.saved_us or 0.0) <= applies
            assert (each.unlike_us or 0.0) <= unknown + 1e-5
            assert applies + unknown <= (each.time_us or 0.0) + 1e-5
            assert (each.unknown_us is None) == (each.basis == "reports")
        if its.total_us:
            missed = (its.not_profiled_us or 0.0) / its.total_us
            assert sum(each.share or 0.0 for each in mine) + missed == pytest.approx(1)
            ranks = [((e.saved_us or 0.0) + (e.unknown_us or 0.0)) / its.total_us for e in mine]
            assert all(a >= b - 1e-9 for a, b in itertools.pairwise(ranks))
    assert top.runs == sum(known for *_, known in reports)
    bases = [each.basis for each in top.opportunities]
    assert bases == sorted(bases, reverse=True)


# --- words


TABLES = re.compile(r"(?:\n(?:[A-Z].*\n)?#   .*\n─+\n(?:.+\n)+)+\n")


def page(out: Path, keet: Keet, *options: object, width: int = 200) -> str:
    """Without the tables, in lines that are too wide to be broken by the length of a path."""
    result = keet("top", out, *options, width=width)
    assert (result.code, result.err) == (0, "")
    return TABLES.sub("", result.out).replace(str(out), "OUT")


def lines_of(out: Path, keet: Keet, first: int, behind: int, *options: object) -> list[str]:
    return page(out, keet, *options).splitlines()[first:behind]


def test_page_of_one_run(tmp_path: Path, keet: Keet, wording) -> None:
    run = of_run(20_000.0, in_run(60_000.0, 400.0), in_run(20_000.0, 2.5, kernel="j"))
    add_reports(tmp_path, {"r": run})
    wording(page(tmp_path, keet))


@pytest.mark.slow
def test_page_names_replay_gaps_and_unknown_savings(tmp_path: Path, keet: Keet, wording) -> None:
    """And the time that a saving is of; a small part in other launches is not mentioned."""
    gaps = in_run(500.0, plain_us=2400.0), in_run(900.0, plain_us=2400.0, kernel="j", **NONE)
    some = in_run(10_000.0, run_alike_us=1000.0), in_run(400.0, kernel="j")
    runs = {
        "gaps": of_run(0.0, *gaps),
        "small": of_run(0.0, in_run(5000.0, run_alike_us=50.0, **NONE)),
        "some": of_run(0.0, *some),
        "most": of_run(0.0, in_run(10_000.0, run_alike_us=9950.0)),
    }
    for name, run in runs.items():
        add_reports(tmp_path / name, {"r": run})
        out = page(tmp_path / name, keet, width=130 if name == "some" else 200)
        assert ("other lengths" in out) == (name in ("some", "small"))
        wording(out, case=name)


@pytest.mark.slow
def test_page_of_runs_and_single_launches(tmp_path: Path, keet: Keet, wording) -> None:
    """A report of a range has a known run, in which its launches have no time."""
    add_reports(tmp_path, {"r": of_run(500.0, in_run(1500.0)), "s": RANGE})
    single = launches({"top_forecast": 1.25}), launches({"kernel": "j", "top_forecast": None})
    add_reports(tmp_path, dict(zip("pq", single)))
    lines = page(tmp_path, keet).splitlines()
    assert lines.index("Whole runs") < lines.index("Single launches")
    wording(lines[1:12], [line for line in lines if re.match(r" \d\. ", line)])
    top = found_in(tmp_path)
    assert (top.reports, top.known_runs, top.runs) == (4, 2, 1)


RANGE = launches({}, run_total_us=700.0, run_unprofiled_us=700.0)


@pytest.mark.slow
def test_page_names_parts_of_runs_and_their_total(tmp_path: Path, keet: Keet, wording) -> None:
    parts = in_run(1000.0), in_run(500.0, kernel="j", kernel_full="j")
    other = in_run(300.0, device="H", compute_capability="8.0")
    third = in_run(200.0, kernel="j", kernel_full="j", compute_capability="7.0")
    add_reports(tmp_path, {"r": of_run(500.0, *parts), "s": of_run(0.0, other)})
    wording(lines_of(tmp_path, keet, 2, 4))
    add_reports(tmp_path, {"t": of_run(0.0, third)})
    wording(lines_of(tmp_path, keet, 2, 4, "--kernel", "^j$"))


@pytest.mark.slow
def test_page_of_ranges_or_without_run_tables(tmp_path: Path, keet: Keet, wording) -> None:
    add_reports(tmp_path / "ranges", {"p": RANGE})
    wording(lines_of(tmp_path / "ranges", keet, 1, 3))
    add_reports(tmp_path, {"p": launches({})})
    wording(lines_of(tmp_path, keet, 2, 4))
    add_reports(tmp_path, {"q": launches({"device": "H", "compute_capability": "8.0"})})
    wording(lines_of(tmp_path, keet, 4, 6))


@pytest.mark.slow
def test_the_first_of_a_mixture_is_of_a_run(tmp_path, keet: Keet, monkeypatch, wording) -> None:
    """The share of a single launch may be larger, and says nothing of a program."""
    monkeypatch.chdir(tmp_path)
    for name in ("r", "p"):
        Path(name).touch()
    single = launches({"top_forecast": 10.0})
    add_reports(tmp_path, {"r": of_run(9e5, in_run(1e5)), "p": single})
    wording(page(tmp_path, keet))


@pytest.mark.slow
def test_sums_of_durations_are_not_called_gpu_time(tmp_path: Path, keet: Keet, wording) -> None:
    """Of tables that have nothing but durations. NULL, as in stores of before, is no claim."""

    def add(place: str, name: str, known: bool | None) -> Path:
        total = {"run_total_us": 2000.0, "run_unprofiled_us": 500.0, "run_overlap_known": known}
        add_reports(tmp_path / place, {name: launches(in_run(1500.0), **total)})
        return tmp_path / place

    out = add("sums", "r", False)
    wording(lines_of(out, keet, 1, 4))
    add_reports(out, {"p": launches({})})
    assert found_in(out).gpus[0].summed_runs == 1
    wording(lines_of(out, keet, 2, 3))
    (known,) = lines_of(add("known", "r", True), keet, 1, 2)
    assert [known] == lines_of(add("null", "r", None), keet, 1, 2)
    wording(known, page(add("known", "s", False), keet))
