"""Opportunities add up what may be added: same kernel, shape and GPU, and only what was measured."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from keet.corpus.store.part_writer import write_part
from keet.corpus.store.reader import open_store
from keet.corpus.store.report_rows import FileRows
from keet.corpus.top import Selection, find_top
from keet.documents.finding import Forecast
from keet.documents.top import GpuDocument, OpportunityDocument, TopDocument
from keet.errors import UsageError
from keet.explanation.headline import DEBUG_BUILD_TEXT
from keet.formats import page_text
from keet.pages.top import forecast_text, group_finding, top_page
from tests.rows import each_row
from tests.unit.corpus.store_rows import finding_row, launch_row, record

PLAIN = {
    "kernel": "k", "kernel_full": "void ns::k()", "grid": "8x1x1", "block": "32x1x1", "device": "GPU",
    "compute_capability": "9.0", "sm_count": 132, "duration_us": 100.0, "limiter": "DRAM",
    "top_finding": "narrow_access", "top_low": 1.0, "top_forecast": 2.0, "top_high": 4.0,
}  # fmt: skip


def top_of(out: Path, *launches: dict[str, object], select: Selection = Selection()) -> TopDocument:  # noqa: B008
    rows = [
        launch_row(**{"report_sha256": "a" * 64, "path": "p", "launch_id": i, **PLAIN, **cells})
        for i, cells in enumerate(launches)
    ]
    write_part(out, [record("p", "a" * 64)], [FileRows(tuple(rows), ())])
    return found_in(out, select)


def found_in(out: Path, select: Selection = Selection()) -> TopDocument:  # noqa: B008
    with open_store(out) as store:
        return find_top(store, select)


def page_of(top: TopDocument, every: bool = False) -> str:
    return page_text(lambda reader: top_page(top, reader, every=every), "markdown")


def test_of_equally_long_launches_always_the_same_one_is_named(tmp_path: Path) -> None:
    """Whichever row a thread of the database reads first, and however a sum was rounded."""
    for place, order in enumerate((("b", "a", "c"), ("c", "b", "a"))):
        rows = [
            launch_row(**{**PLAIN, "report_sha256": n * 64, "path": n, "launch_id": 0})
            for n in order
        ]
        out = tmp_path / str(place)
        write_part(out, [record(n, n * 64) for n in order], [FileRows((row,), ()) for row in rows])
        top = found_in(out)
        assert [each.path for each in top.opportunities] == ["a"]
        assert top.opportunities[0].share == 1.0


NOTHING = {"top_finding": None, "top_low": None, "top_forecast": None, "top_high": None}


def test_a_group(tmp_path: Path) -> None:
    top = top_of(tmp_path, {}, {"duration_us": 300.0, "top_forecast": 3.0, "limiter": "L2"})
    assert (top.by, top.reports, top.launches, top.untimed) == ("kernel", 1, 2, 0)
    assert (top.time_us, top.groups) == (400.0, 1)
    assert top.gpus == [gpu("GPU", 2, 400.0, 400.0)]
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


def gpu(name: str, launches: int, time_us: float, total_us: float) -> GpuDocument:
    return GpuDocument(
        device=name, compute_capability="9.0", sm_count=132, launches=launches, untimed=0,
        time_us=time_us, total_us=total_us, basis="reports", runs=0, run_launches=None,
        not_profiled_us=None, replay_gaps=0, replay_gap_us=None, gap_example=None, summed_runs=0,
    )  # fmt: skip


@each_row(
    ("other", "gpus"),
    [
        ({"device": "another"}, 2),
        ({"sm_count": 16}, 2),
        ({"grid": "9x1x1"}, 1),
        ({"block": "64x1x1"}, 1),
        ({"kernel": "j"}, 1),
        ({"device": None}, 2),
    ],
)
@pytest.mark.slow
def test_what_differs_is_another_group(
    other: dict[str, object], gpus: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    top = top_of(tmp_path_factory.mktemp("store"), {}, other)
    assert ([each.launches for each in top.opportunities], len(top.gpus)) == ([1, 1], gpus)


@pytest.mark.parametrize("by", ["finding", "file"])
@pytest.mark.slow
def test_devices_are_never_mixed(tmp_path: Path, by) -> None:
    top = top_of(tmp_path, {}, {"device": "another"}, {"kernel": "j"}, select=Selection(by=by))
    told = [(each.device, each.launches, each.kernels) for each in top.opportunities]
    assert told == [("GPU", 2, 2), ("another", 1, 1)]


@pytest.mark.slow
def test_a_time_that_was_not_measured_is_not_zero(tmp_path: Path) -> None:
    top = top_of(tmp_path, {}, {"duration_us": None}, {"kernel": "j", "duration_us": None})
    measured, unknown = top.opportunities
    assert (top.launches, top.untimed, top.time_us) == (3, 2, 100.0)
    assert (measured.launches, measured.untimed, measured.time_us) == (2, 1, 100.0)
    assert (unknown.time_us, unknown.share, unknown.saved_us, unknown.forecast) == (None,) * 4
    assert unknown.path == "p"
    nothing = top_of(tmp_path / "nothing", {"duration_us": None})
    assert (nothing.time_us, nothing.opportunities[0].share) == (None, None)


@pytest.mark.slow
def test_the_finding_with_the_largest_saving_is_shown(tmp_path: Path) -> None:
    """Of 3 launches one has the larger gain, though the other finding is more frequent."""
    rare: dict[str, object] = {"top_finding": "small_grid", "top_forecast": 5.0}
    (only,) = top_of(tmp_path, {}, {}, rare | {"duration_us": 500.0, "limiter": "latency"}).opportunities  # fmt: skip
    assert (only.finding, only.finding_launches, only.limiter) == ("small_grid", 1, "latency")
    assert (only.saved_us, only.time_us, only.launch) == (400.0, 700.0, 2)


@pytest.mark.slow
def test_groups_without_a_saving_come_last_by_time(tmp_path: Path) -> None:
    short, long = {**NOTHING, "kernel": "short", "duration_us": 1.0}, {**NOTHING, "kernel": "long"}
    top = top_of(tmp_path, short, long | {"duration_us": 1e6}, {"kernel": "bad"})
    assert [each.kernel for each in top.opportunities] == ["bad", "long", "short"]
    assert (top.opportunities[1].finding, top.opportunities[1].finding_launches) == (None, 0)
    (worse,) = top_of(tmp_path / "worse", {"top_forecast": 0.5}).opportunities
    assert worse.saved_us == 0.0


def test_selection(tmp_path: Path) -> None:
    select = Selection(kernel=re.compile("ns::j$"), device=re.compile("A.0"))
    a40 = {"device": "A40"}
    chosen = {"kernel": "j", "kernel_full": "ns::j", **a40}
    top = top_of(tmp_path, {}, a40, chosen, {**a40, "duration_us": 200.0}, select=select)
    (only,) = top.opportunities
    # A share is of all kernels on the GPU; what is counted is what was chosen.
    assert (only.kernel, only.share) == ("j", 0.25)
    assert (top.launches, top.groups, top.time_us) == (1, 1, 100.0)
    assert top.gpus == [gpu("A40", 1, 100.0, 400.0)]


@pytest.mark.slow
def test_counts_are_of_the_selected_launches(tmp_path: Path) -> None:
    """Reports, launches and those without a time; a copy of a report is no report."""
    others = {"report_sha256": "b" * 64, "device": "A40"}
    rows = ({}, {"duration_us": None}, {**others, "duration_us": None}, others)
    write_part(tmp_path, [record("q", "a" * 64, "duplicate", duplicate_of="p")], [])
    whole = top_of(tmp_path, *rows)
    assert (whole.reports, whole.launches, whole.untimed) == (2, 4, 2)
    write_part(tmp_path, [record("r", "b" * 64)], [])
    some = found_in(tmp_path, Selection(device=re.compile("A40")))
    assert (some.reports, some.launches, some.untimed) == (1, 2, 1)


@pytest.mark.slow
def test_each_gpu_has_a_time_of_its_own(tmp_path: Path) -> None:
    """The slow GPU's times are larger, and so is what can be had there; its share is less."""
    slow = {"device": "old", "duration_us": 10_000.0, "top_forecast": 1.25}
    top = top_of(tmp_path, slow, {"duration_us": 60.0}, {**NOTHING, "kernel": "j", "duration_us": 40.0})  # fmt: skip
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
def test_a_gpu_is_the_same_with_and_without_its_maker(tmp_path: Path) -> None:
    names = ({"device": "NVIDIA TITAN V"}, {"device": "TITAN V"}, {"device": "TITAN"})
    (first, second) = top_of(tmp_path, *names).opportunities
    assert (first.device, first.launches, first.share) == ("NVIDIA TITAN V", 2, 1.0)
    assert (second.device, second.launches) == ("TITAN", 1)
    for asked in ("^TITAN V$", "^NVIDIA TITAN"):
        (only,) = found_in(tmp_path, Selection(device=re.compile(asked))).opportunities
        assert (only.device, only.launches) == ("NVIDIA TITAN V", 2)


@pytest.mark.slow
def test_launches_that_were_not_checked_are_counted(tmp_path: Path) -> None:
    cells = ({**NOTHING, "not_judged": True}, {**NOTHING, "not_judged": False}, NOTHING)
    seen = top_of(tmp_path, *cells)
    assert [(each.launches, each.not_judged) for each in seen.opportunities] == [(3, 1)]


@pytest.mark.parametrize("field", ["kernel", "device"])
@pytest.mark.slow
def test_a_selection_without_launches_is_refused(tmp_path: Path, field: str) -> None:
    said = r"'x' matches no launch; the store has (k|GPU); see: keet top"
    with pytest.raises(UsageError, match=said):
        top_of(tmp_path, {}, select=Selection(**{field: re.compile("x")}))  # type: ignore[arg-type]


@pytest.mark.slow
def test_long_launches_without_a_finding_are_named_below_the_limit(tmp_path: Path) -> None:
    """Those that take a tenth of the time or more, whatever the reason; debug code is not read."""
    debug = {"headline": DEBUG_BUILD_TEXT, "machine_code": "off"}
    top = top_of(
        tmp_path,
        *({"kernel": f"k{i}"} for i in range(4)),
        {**NOTHING, "kernel": "wmma_gemm", "duration_us": 600.0, "machine_code": "off"},
        {**NOTHING, "kernel": "checked", "duration_us": 500.0, "machine_code": "analysed"},
        {**NOTHING, "kernel": "debug", "duration_us": 400.0, **debug},
        {**NOTHING, "kernel": "short", "duration_us": 50.0, "machine_code": "off"},
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


@pytest.mark.parametrize(("finding", "named"), [("narrow_access", 2), ("small_grid", 0)])
def test_a_group_names_the_launch_that_explain_shows(
    tmp_path: Path, finding: str, named: int
) -> None:
    """The representative, not the longest; if it has another finding, one with the group's."""
    middle = {"duration_us": 100.0, "top_finding": finding}
    (only,) = top_of(tmp_path, {"duration_us": 150.0}, {"duration_us": 90.0}, middle).opportunities
    assert (only.finding, only.launch) == ("narrow_access", named)


def test_details_of_the_first_groups_and_of_all(tmp_path: Path) -> None:
    top = top_of(tmp_path, *({"kernel": f"k{i}"} for i in range(5)))
    pages = [page_of(top, every) for every in (False, True)]
    assert [(p.count("could save 50"), "--all" in p) for p in pages] == [(3, True), (5, False)]


@pytest.mark.slow
def test_times_are_those_of_a_plain_loop(tmp_path: Path) -> None:
    dice = random.Random(3)
    launches = [
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
    for each in launches:
        time = float(each["duration_us"] or 0)
        saved = time - time / each["top_forecast"]
        expected[each["kernel"], each["device"]][each["top_finding"]] += saved  # type: ignore[assignment]
    found = {(e.kernel, e.device): e.saved_us for e in top_of(tmp_path, *launches).opportunities}
    assert found == {key: pytest.approx(max(sums.values())) for key, sums in expected.items()}


def shown(top: TopDocument) -> list[tuple[str, str]]:
    """Finding and forecast of each group, as on the page."""
    return [(group_finding(each), forecast_text(each)) for each in top.opportunities]


@pytest.mark.slow
def test_debug_code_has_no_finding_because_it_is_debug_code(tmp_path: Path, wording) -> None:
    debug = {**NOTHING, "headline": f"{DEBUG_BUILD_TEXT} What follows describes the debug code."}
    assert shown(top_of(tmp_path / "all", debug, debug)) == [("debug build", "")]
    wording(shown(top_of(tmp_path / "some", debug, NOTHING)))


def with_findings(
    out: Path, count: int, id_: str, cells: dict[str, object], **more: object
) -> TopDocument:
    """Launches whose first finding is this."""
    keys = [{"report_sha256": "a" * 64, "launch_id": i} for i in range(count)]
    rows = tuple(
        launch_row(**{**PLAIN, "path": "p", "top_finding": id_, **cells, **key}) for key in keys
    )
    causes = tuple(finding_row(**key, rank=1, id=id_, **more) for key in keys)
    write_part(out, [record("p", "a" * 64)], [FileRows(rows, causes)])
    return found_in(out)


@pytest.mark.slow
def test_a_launch_of_a_few_threads_does_more_work_and_not_the_same_faster(
    tmp_path: Path, wording
) -> None:
    top = with_findings(tmp_path, 1, "small_grid", {}, variant="tiny")
    wording(shown(top))
    assert top.opportunities[0].saved_us == 0
    assert "could save 0" not in page_of(top)
    assert "saving none;" in page_of(top)


@pytest.mark.parametrize(
    ("launches", "in_run", "saved"),
    [
        (1, 4, 300),
        *(pytest.param(*row, marks=pytest.mark.slow) for row in [(1, None, 0), (4, None, 150)]),
    ],
)
def test_short_launches_save_what_merging_them_saves(
    tmp_path: Path, launches: int, in_run: float | None, saved: float
) -> None:
    """100 us each, in the run 800 us together; two become one: all but one are merged."""
    run: dict[str, object] = {"run_launches": in_run, "run_time_us": 800.0} if in_run else {}
    top = with_findings(tmp_path, launches, "launch_bound", run)
    assert top.opportunities[0].saved_us == saved
