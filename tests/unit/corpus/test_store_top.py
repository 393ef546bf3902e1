"""Opportunities add up what may be added: same kernel, shape and GPU, and only what was measured."""

import random
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

from keet.analysis.parameters import LEAST_KERNEL_NS
from keet.analysis.replay_gap import REPLAY_DIFFERS
from keet.corpus.store.part_writer import write_part
from keet.corpus.store.reader import open_store
from keet.corpus.top import Selection, find_top
from keet.documents.finding import Forecast
from keet.documents.top import GapExampleDocument, GpuDocument, OpportunityDocument, TopDocument
from keet.errors import UsageError
from keet.explanation.headline import DEBUG_BUILD_TEXT
from keet.formats import page_text
from keet.pages.top import forecast_text, group_finding, top_page
from tests.rows import each_row
from tests.unit.corpus.store_rows import (
    Cells,
    Launches,
    add_reports,
    in_run,
    launches,
    of_run,
    record,
)

NONE: Cells = {"top_finding": None, "top_low": None, "top_forecast": None, "top_high": None}


def top_of(out: Path, *cells: Cells, select: Selection = Selection()) -> TopDocument:  # noqa: B008
    add_reports(out, {"p": launches(*cells)})
    return found_in(out, select)


def found_in(out: Path, select: Selection = Selection()) -> TopDocument:  # noqa: B008
    with open_store(out) as store:
        return find_top(store, select)


def page_of(top: TopDocument, every: bool = False) -> str:
    return page_text(lambda reader: top_page(top, reader, every=every), "markdown")


def gpu(launches: int, time_us: float, total_us: float, **cells: object) -> GpuDocument:
    usual = {"device": "GPU", "basis": "reports", "runs": 0, "run_launches": None}
    return GpuDocument(
        compute_capability="9.0", sm_count=132, launches=launches, untimed=0, time_us=time_us,
        total_us=total_us, replay_gaps=0, replay_gap_us=None, gap_example=None, summed_runs=0,
        **{**usual, "not_profiled_us": None, **cells},
    )  # fmt: skip


def test_a_group(tmp_path: Path) -> None:
    top = top_of(tmp_path, {}, {"duration_us": 300.0, "top_forecast": 3.0, "limiter": "L2"})
    assert (top.by, top.reports, top.launches, top.untimed) == ("kernel", 1, 2, 0)
    assert (top.time_us, top.groups) == (400.0, 1)
    assert top.gpus == [gpu(2, 400.0, 400.0)]
    assert top.opportunities == [
        OpportunityDocument(
            rank=1,
            kernel="k", kernels=1, grid="8x1x1", block="32x1x1", device="GPU",
            compute_capability="9.0", sm_count=132, launches=2, untimed=0, time_us=400.0, share=1.0,
            limiter="L2", finding="narrow_access", finding_launches=2,
            # 100 us become 50, 300 become 100: 400 / 150.
            forecast=Forecast(low=1.0, likely=2.6667, high=4.0), saved_us=250.0, saved_share=0.625, not_judged=0,
            path="p", launch=1, gone=True, basis="reports", run_launches=None, replay_gaps=0,
            saved_of_us=400.0, unknown_us=None, unlike_us=None, variant=None, debug_builds=0,
            reports=1, file=None, line=None, cause_certainty=None, without_code=0,
        ),
    ]  # fmt: skip


# --- GPUs of one store: each is the whole of one case


class Case(NamedTuple):
    """Reports of one GPU; what is told of its groups in their order, and of its list of times."""

    reports: list[Launches]
    groups: list[Cells]
    gpu: Cells = {}  # noqa: RUF012


def merged(count: int, run: float | None, saved: float) -> Case:
    """100 us each, in the run 800 us together; two become one: all but one are merged."""
    cells: Cells = {"top_finding": "launch_bound"}
    cells |= {"run_launches": run, "run_time_us": 800.0} if run else {}
    return Case([launches(*[cells] * count, finding={"id": "launch_bound"})], [{"saved_us": saved}])


def named(finding: str, launch: int) -> Case:
    times = (150.0, "narrow_access"), (90.0, "narrow_access"), (100.0, finding)
    cells = [{"duration_us": us, "top_finding": id_} for us, id_ in times]
    return Case([launches(*cells)], [{"finding": "narrow_access", "launch": launch}])


def replayed(replay_us: float | None, plain_us: float | None, *, gap: bool) -> Case:
    """No saving is claimed where the replay differs from the run."""
    told: Cells = {"time_us": 1000.0, "share": 1.0, "replay_gaps": int(gap)}
    told |= {"saved_us": None, "forecast": None} if gap else {"saved_us": 500.0}
    cells = in_run(1000.0, duration_us=replay_us, plain_us=plain_us)
    return Case([of_run(0.0, cells)], [told], {"replay_gap_us": 1000.0 if gap else None})


CASES: dict[str, Case] = {
    "a time that was not measured is not zero": Case(
        [launches({}, {"duration_us": None}, {"kernel": "j", "duration_us": None})],
        [
            {"launches": 2, "untimed": 1, "time_us": 100.0},
            {"time_us": None, "share": None, "saved_us": None, "forecast": None},
        ],
        {"launches": 3, "untimed": 2, "time_us": 100.0},
    ),
    "no time at all": Case([launches({"duration_us": None})], [{"share": None}], {"time_us": None}),
    "the largest saving, though the other finding is more frequent": Case(
        [launches({}, {}, {"top_finding": "small_grid", "top_forecast": 5.0, "duration_us": 500.0, "limiter": "latency"})],
        [{
            "finding": "small_grid", "finding_launches": 1, "limiter": "latency", "launch": 2,
            "saved_us": 400.0, "time_us": 700.0,
        }],
    ),
    "groups without a saving come last, by time": Case(
        [launches(
            {**NONE, "kernel": "short", "duration_us": 1.0},
            {**NONE, "kernel": "long", "duration_us": 1e6}, {"kernel": "bad"},
        )],
        [{"kernel": "bad"}, {"kernel": "long", "finding": None, "finding_launches": 0}, {"kernel": "short"}],
    ),
    "a fix that costs time": Case([launches({"top_forecast": 0.5})], [{"saved_us": 0.0}]),
    "launches that were not checked": Case(
        [launches({**NONE, "not_judged": True}, {**NONE, "not_judged": False}, NONE)],
        [{"launches": 3, "not_judged": 1}],
    ),
    "the launch that explain shows: the representative, not the longest": named("narrow_access", 2),
    "if that has another finding, one with the group's": named("small_grid", 0),
    "launches to merge of a run": merged(1, 4, 300),
    "one launch, and nothing to merge it with": merged(1, None, 0),
    "launches to merge of a report": merged(4, None, 150),
    # 155 launches of the same kernel took a hundred times as long as the profiled one
    "some launches are of similar length": Case(
        [of_run(0.0, in_run(10_000.0, run_alike_us=1000.0), in_run(2000.0, kernel="j"))],
        [
            {
                "kernel": "k", "time_us": 10_000.0, "saved_us": 500.0, "saved_of_us": 1000.0,
                "unknown_us": 9000.0, "unlike_us": 9000.0,
                "forecast": Forecast(low=1.0, likely=2.0, high=4.0),
            },
            {"kernel": "j", "saved_us": 1000.0, "saved_of_us": 2000.0, "unknown_us": 0.0},
        ],
    ),
    "none is of similar length": Case(
        [of_run(0.0, in_run(10_000.0, run_alike_us=0.0))],
        [{
            "saved_us": None, "saved_of_us": None, "forecast": None, "unknown_us": 10_000.0,
            "unlike_us": 10_000.0, "finding": "narrow_access",
        }],
    ),
    "sums of floats end above their whole": Case(
        [of_run(0.0, in_run(1000.0, run_alike_us=1000.001))],
        [{"saved_us": 500.0, "saved_of_us": 1000.0, "unlike_us": 0.0}],
    ),
    "nothing to fix in a small launch says nothing of large ones": Case(
        [of_run(0.0, in_run(5000.0, run_alike_us=50.0, **NONE), in_run(100.0, kernel="j"))],
        [{"kernel": "k", "finding": None, "unknown_us": 4950.0}, {"kernel": "j"}],
    ),
    "the replay of one of two differs": Case(
        [of_run(0.0, in_run(1000.0, plain_us=500.0), in_run(300.0))],
        [{"time_us": 1300.0, "saved_us": 150.0, "replay_gaps": 1, "launches": 2}],
    ),
    "time with an unknown saving ranks in full: it may be worth that much": Case(
        [of_run(
            0.0,
            in_run(900.0, kernel="known"),
            in_run(700.0, kernel="gap", plain_us=2400.0),
            in_run(400.0, kernel="not judged", not_judged=True, **NONE),
            in_run(5000.0, kernel="well", **NONE),
            in_run(500.0, kernel="no forecast", top_forecast=None),
        )],
        [
            {"kernel": "gap", "saved_us": None, "unknown_us": 700.0},
            {"kernel": "no forecast", "saved_us": None, "unknown_us": 500.0},
            {"kernel": "known", "saved_us": 450.0, "unknown_us": 0.0},
            {"kernel": "not judged", "saved_us": None, "unknown_us": 400.0},
            {"kernel": "well", "saved_us": None, "unknown_us": 0.0},
        ],
    ),
    "runs of several reports add up": Case(
        [of_run(100.0, in_run(400.0)), of_run(200.0, in_run(300.0))],
        [{"time_us": 700.0, "share": 0.7, "launches": 2, "run_launches": 20.0}],
        {"runs": 2, "total_us": 1000.0, "not_profiled_us": 300.0},
    ),
    "a kernel that the run does not have counts as profiled": Case(
        [launches(in_run(500.0), {"kernel": "j", "plain_us": 5000.0}, run_total_us=500.0)],
        [
            {"kernel": "k", "basis": "run", "time_us": 500.0, "saved_us": 250.0, "replay_gaps": 0},
            {"kernel": "j", "basis": "reports", "time_us": 100.0, "saved_us": 50.0, "replay_gaps": 0},
        ],
    ),
    "replayed in much less": replayed(5.0, 2400.0, gap=True),
    "replayed in much more": replayed(2400.0, 5.0, gap=True),
    "replay just differs": replayed(100.0, 100.0 * REPLAY_DIFFERS + 1, gap=True),
    "replay just agrees": replayed(100.0, 100.0 * REPLAY_DIFFERS - 1, gap=False),
    "short replay just agrees": replayed(1.0 + LEAST_KERNEL_NS / 1e3, 1.0, gap=False),
    "short replay just differs": replayed(1.1 + LEAST_KERNEL_NS / 1e3, 1.0, gap=True),
    "ncu never measures less than the run took": replayed(2.43, 4.3, gap=True),
    "no plain time": replayed(100.0, None, gap=False),
    "no replayed time": replayed(None, 100.0, gap=False),
}  # fmt: skip


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> TopDocument:
    out, reports = tmp_path_factory.mktemp("store"), {}
    for name, case in CASES.items():
        for number, (cells, run, finding) in enumerate(case.reports):
            own = [{"device": name, **each} for each in cells]
            reports[f"{number} {name}"] = Launches(own, run, finding)
    add_reports(out, reports)
    return found_in(out, Selection(limit=None))


@each_row("name", CASES)
def test_case(name: str, cases: TopDocument) -> None:
    wanted = CASES[name]
    groups = [vars(each) for each in cases.opportunities if each.device == name]
    assert [
        {k: f[k] for k in e} for f, e in zip(groups, wanted.groups, strict=True)
    ] == wanted.groups
    first = vars(next(each for each in cases.gpus if each.device == name))
    assert {key: first[key] for key in wanted.gpu} == wanted.gpu
    if wanted.gpu.get("replay_gap_us"):
        assert first["gap_example"] == GapExampleDocument(path=f"0 {name}", launch=0)


# --- which launches are a group


def test_of_equally_long_launches_always_the_same_one_is_named(tmp_path: Path) -> None:
    """Whichever row a thread of the database reads first, and however a sum was rounded."""
    for place, order in enumerate(("bac", "cba")):
        add_reports(tmp_path / str(place), {name: launches({}) for name in order})
        (only,) = found_in(tmp_path / str(place)).opportunities
        assert (only.path, only.share) == ("a", 1.0)


@pytest.mark.slow
def test_what_differs_is_another_group_and_gpus_are_never_mixed(tmp_path: Path) -> None:
    same = ({"grid": "9x1x1"}, {"block": "64x1x1"}, {"kernel": "j"})
    others = ({"device": "another"}, {"sm_count": 16}, {"device": None})
    top = top_of(tmp_path, {}, *same, *others)
    assert [each.launches for each in top.opportunities] == [1] * 7
    assert sorted(each.launches for each in top.gpus) == [1, 1, 1, 4]
    for by in ("finding", "file"):
        groups = found_in(tmp_path, Selection(by=by)).opportunities
        assert sorted((g.launches, g.kernels) for g in groups) == [*[(1, 1)] * 3, (4, 2)]


@pytest.mark.slow
def test_a_gpu_is_the_same_with_and_without_its_maker(tmp_path: Path) -> None:
    names = ({"device": "NVIDIA TITAN V"}, {"device": "TITAN V"}, {"device": "TITAN"})
    (first, second) = top_of(tmp_path, *names).opportunities
    assert (first.device, first.launches, first.share) == ("NVIDIA TITAN V", 2, 1.0)
    assert (second.device, second.launches) == ("TITAN", 1)
    for asked in ("^TITAN V$", "^NVIDIA TITAN"):
        (only,) = found_in(tmp_path, Selection(device=re.compile(asked))).opportunities
        assert (only.device, only.launches) == ("NVIDIA TITAN V", 2)


@pytest.mark.slow
def test_each_gpu_has_a_time_of_its_own(tmp_path: Path) -> None:
    """The slow GPU's times are larger, and so is what can be had there; its share is less."""
    slow = {"device": "old", "duration_us": 10_000.0, "top_forecast": 1.25}
    top = top_of(
        tmp_path, slow, {"duration_us": 60.0}, {**NONE, "kernel": "j", "duration_us": 40.0}
    )
    told = [(each.device, each.share, each.saved_share) for each in top.opportunities]
    assert told == [
        ("old", 1.0, pytest.approx(0.2)),
        ("GPU", pytest.approx(0.6), pytest.approx(0.3)),
        ("GPU", pytest.approx(0.4), None),
    ]
    by_share = found_in(tmp_path, Selection(sort="share")).opportunities
    order = [(each.kernel, each.device) for each in by_share]
    assert order == [("k", "GPU"), ("k", "old"), ("j", "GPU")]
    assert top.time_us is None
    gpus = [(gpu.device, gpu.launches, gpu.time_us) for gpu in top.gpus]
    assert gpus == [("GPU", 2, 100.0), ("old", 1, 10_000.0)]


@pytest.mark.slow
def test_times_are_those_of_a_plain_loop(tmp_path: Path) -> None:
    dice = random.Random(3)
    cells = [
        {
            "kernel": dice.choice("ab"),
            "device": dice.choice(["x", "y"]),
            "top_finding": dice.choice(["f", "g", None]),
            "top_forecast": (gain := dice.choice([1.5, 2.0, 3.0])),
            "duration_us": dice.choice([None, 1.0, 10.0, 25.0]),
            "top_low": 1.0,
            "top_high": gain * 2,
        }
        for _ in range(200)
    ]
    expected: dict[object, Counter[object]] = defaultdict(Counter)
    for each in cells:
        time = float(each["duration_us"] or 0)
        saved = time - time / each["top_forecast"]
        expected[each["kernel"], each["device"]][each["top_finding"]] += saved  # type: ignore[assignment]
    found = {(e.kernel, e.device): e.saved_us for e in top_of(tmp_path, *cells).opportunities}
    assert found == {key: pytest.approx(max(sums.values())) for key, sums in expected.items()}


# --- selection


def test_selection(tmp_path: Path) -> None:
    select = Selection(kernel=re.compile("ns::j$"), device=re.compile("A.0"))
    a40 = {"device": "A40"}
    chosen = {"kernel": "j", "kernel_full": "ns::j", **a40}
    top = top_of(tmp_path, {}, a40, chosen, {**a40, "duration_us": 200.0}, select=select)
    (only,) = top.opportunities
    # A share is of all kernels on the GPU; what is counted is what was chosen.
    assert (only.kernel, only.share) == ("j", 0.25)
    assert (top.launches, top.groups, top.time_us) == (1, 1, 100.0)
    assert top.gpus == [gpu(1, 100.0, 400.0, device="A40")]
    for field in ("kernel", "device"):
        said = r"'x' matches no launch; the store has .+; see: keet top"
        with pytest.raises(UsageError, match=said):
            found_in(tmp_path, Selection(**{field: re.compile("x")}))  # type: ignore[arg-type]


@pytest.mark.slow
def test_counts_are_of_the_selected_launches(tmp_path: Path) -> None:
    """Reports, launches and those without a time; a copy of a report is no report."""
    b = {"device": "A40"}
    untimed = {"duration_us": None}
    write_part(tmp_path, [record("q", "p".ljust(64, "-"), "duplicate", duplicate_of="p")], [])
    add_reports(tmp_path, {"p": launches({}, untimed), "r": launches({**untimed, **b}, b)})
    whole, some = found_in(tmp_path), found_in(tmp_path, Selection(device=re.compile("A40")))
    assert (whole.reports, whole.launches, whole.untimed) == (2, 4, 2)
    assert (some.reports, some.launches, some.untimed) == (1, 2, 1)


@pytest.mark.slow
def test_long_launches_without_a_finding_are_named_below_the_limit(tmp_path: Path) -> None:
    """Those that take a tenth of the time or more, whatever the reason; debug code is not read."""
    debug = {"headline": DEBUG_BUILD_TEXT, "machine_code": "off"}
    top = top_of(
        tmp_path,
        *({"kernel": f"k{i}"} for i in range(4)),
        {**NONE, "kernel": "wmma_gemm", "duration_us": 600.0, "machine_code": "off"},
        {**NONE, "kernel": "checked", "duration_us": 500.0, "machine_code": "analysed"},
        {**NONE, "kernel": "debug", "duration_us": 400.0, **debug},
        {**NONE, "kernel": "short", "duration_us": 50.0, "machine_code": "off"},
        select=Selection(limit=2),
    )
    assert top.groups == 8
    assert [(each.rank, each.kernel) for each in top.opportunities] == [(1, "k0"), (2, "k1")]
    rest = [(each.rank, each.kernel, each.without_code) for each in top.without_finding]
    assert rest == [(5, "wmma_gemm", 1), (6, "checked", 0), (7, "debug", 1)]
    lines = [line for line in page_of(top).splitlines() if line.startswith("|")]
    rows = {name: line for _, name, _ in rest for line in lines if name in line}
    lacking = [kernel for kernel, line in rows.items() if "machine code not analysed" in line]
    assert (list(rows), lacking) == (["wmma_gemm", "checked", "debug"], ["wmma_gemm"])


# --- words


def test_details_of_the_first_groups_and_of_all(tmp_path: Path) -> None:
    top = top_of(tmp_path, *({"kernel": f"k{i}"} for i in range(5)))
    pages = [page_of(top, every) for every in (False, True)]
    assert [(p.count("could save 50"), "--all" in p) for p in pages] == [(3, True), (5, False)]


@pytest.mark.slow
def test_debug_code_and_launches_that_do_more_work_save_nothing(tmp_path: Path, wording) -> None:
    """Debug code has no finding because it is debug code; a launch of a few threads does more work,
    and not the same faster."""
    debug = {**NONE, "headline": f"{DEBUG_BUILD_TEXT} What follows describes the debug code."}
    some = [{"kernel": "some", **each} for each in (debug, NONE)]
    few = {"kernel": "few", "top_finding": "small_grid"}
    tiny = launches(few, finding={"id": "small_grid", "variant": "tiny"})
    add_reports(tmp_path, {"p": launches(debug, debug, *some), "q": tiny})
    top = found_in(tmp_path)
    wording(
        [f"{each.kernel} {group_finding(each)} {forecast_text(each)}" for each in top.opportunities]
    )
    assert {each.saved_us for each in top.opportunities} == {None, 0}
    assert "could save 0" not in page_of(top)
    assert "saving none;" in page_of(top)
