"""Results of the API are what the commands print."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import keet as api
from keet.api.diff import _side_names
from keet.errors import DamagedReport, NotAvailable
from tests import insights_sets
from tests.conftest import REPORTS, Keet
from tests.many_launches import copied
from tests.rows import each_row
from tests.unit.api.conftest import ROOT, TOUR

SLOW, FAST = (ROOT / f"kernels_samples/matrix_flip/{name}.ncu-rep" for name in ("slow", "fast"))


def printed(keet: Keet, *arguments: object) -> str:
    done = keet(*arguments, width=100)
    assert done.code == 0, done.err
    return done.out


EXPLAIN = ("explain", TOUR, "--no-model", "--no-sass")
PLAIN = ("explain", SLOW, "--no-model", "--no-sass", "--all", "--verbose")
SAME: list[tuple[str, dict[str, Any], tuple[object, ...], str]] = [
    ("explain", {"launches": 1}, (*EXPLAIN, "--launch", "1"), "json markdown text"),
    ("explain", {}, EXPLAIN, "json markdown text"),
    ("explain", {"launches": [0, 2], "top": 1}, (*EXPLAIN, "--launch", "0,2", "--top", 1), "json"),
    ("explain", {"kernel": "transpose"}, (*EXPLAIN, "--kernel", "transpose"), "json markdown text"),
    ("roofline", {"launches": range(2)}, ("roofline", TOUR, "--launch", "0-1"), "json svg text"),
    (
        "hotspots",
        {"launches": "0,2", "top": 2},
        ("hotspots", TOUR, "--launch", "0,2", "--top", 2),
        "json text",
    ),
    ("diff", {"launches": (0, 1)}, ("diff", TOUR, "--launch", "0:1"), "json"),
]
"""Functions of the tour, and the command that prints the same in each of these formats."""


def check_same(made: Any, keet: Keet, command: tuple[object, ...], formats: str) -> None:
    for form in formats.split():
        told = printed(keet, *command, *([] if form == "text" else ["--format", form]))
        same = made.to_dict() if form == "json" else getattr(made, f"to_{form}")()
        assert same == (json.loads(told) if form == "json" else told)


@each_row("name, options, command, formats", SAME, few=2)
def test_what_a_command_prints(
    keet: Keet, name: str, options: Any, command: Any, formats: str
) -> None:
    more = {"sass": False} if name == "explain" else {}
    made = getattr(api, name)(TOUR, **options, **more)
    check_same(made, keet, command, formats)
    assert str(made) == made.to_text()


@pytest.mark.slow
def test_pages_and_contexts(keet: Keet) -> None:
    made = api.explain(SLOW)
    check_same(made, keet, ("explain", SLOW, "--no-model"), "html")
    assert made.to_context(600) == printed(keet, "context", SLOW, "--max-tokens", 600)
    assert api.explain(TOUR).to_context() == printed(keet, "context", TOUR)
    made = api.explain(SLOW, sass=False)
    assert made.to_text(everything=True, verbose=True) == printed(keet, *PLAIN)


@pytest.mark.slow
def test_a_difference(keet: Keet) -> None:
    made = api.diff(SLOW, FAST, gate=5)
    check_same(made, keet, ("diff", SLOW, FAST, "--gate", "5"), "json markdown html text")
    pairs, account = made.to_pandas(), made.to_pandas("account")
    assert pairs["verdict"].tolist() == ["faster"]
    assert made.findings == {"fixed": ("uncoalesced_global",), "new": (), "remaining": ()}
    outermost = account[account.parent.isna()]
    assert outermost["before_us"].sum() == pytest.approx(pairs["before_us"][0], rel=1e-3)
    assert made.to_pandas("attribution")["finding"][0] == "uncoalesced_global"
    with pytest.raises(ValueError, match="it has: pairs, account, attribution"):
        made.to_pandas("launches")  # type: ignore[arg-type]
    slower = api.diff(FAST, SLOW, gate=5)
    assert repr(slower).endswith("7.02x slower, 1 kernel, gate failed>")
    assert slower.failed
    assert slower.gate.regressions[0].kernel == "flip"


def test_launches_of_a_roofline() -> None:
    made = api.roofline(TOUR, launches=range(2))
    assert "dram" in {each.id for each in made.launches[0].ceilings}
    assert made.launches[0].to_dict() == made.to_dict()["launches"][0]


def test_objects_are_those_of_the_document(tour: api.ExplainResult) -> None:
    document = tour.to_dict()
    assert [each.to_dict() for each in tour.launches] == document["launches"]
    assert [(f.launch.id, f.id) for f in tour.findings] == [
        (launch["id"], each["id"]) for launch in document["launches"] for each in launch["findings"]
    ]
    assert [f.to_dict() for f in tour.launches[0].findings] == document["launches"][0]["findings"]
    assert set(tour.evidence) == {key for each in document["launches"] for key in each["evidence"]}
    for finding in tour.findings:
        assert [each.id for each in finding.evidence] == finding.to_dict()["evidence"]
    for launch in tour.launches:
        parts = launch.account
        for some in ([p for p in parts if p.parent is None], [p for p in parts if p.innermost]):
            assert sum(part.share for part in some) == pytest.approx(1, abs=1e-4)
            assert sum(part.us or 0 for part in some) == pytest.approx(launch.duration_us, rel=1e-3)
    assert len(tour.account) == sum(len(launch.account) for launch in tour.launches)


def test_frames(tour: api.ExplainResult) -> None:
    names = ("findings", "account", "launches")
    findings, account, launches = (tour.to_pandas(name) for name in names)
    assert findings["id"].tolist() == [each.id for each in tour.findings]
    assert account.groupby("launch_id")["share"].sum().size == 3
    assert launches["headline"].tolist() == [each.headline for each in tour.launches]
    first = {each.id: each.findings[0].id for each in tour.launches if each.findings}
    assert launches["top_finding"].dropna().to_dict() == first
    with pytest.raises(ValueError, match="it has: findings, account, launches, lines, metrics"):
        tour.to_pandas("launch")  # type: ignore[arg-type]


def test_frames_of_lines_and_metrics(tour: api.ExplainResult) -> None:
    """They have what `keet hotspots` and `keet metrics` print; what was not measured is missing."""
    lines, metrics = tour.to_pandas("lines"), tour.to_pandas("metrics")
    for launch in tour.profile:
        own = lines[lines.launch_id == launch.id]
        assert own.share.sum() == pytest.approx(1)
        assert own.filter(like="stall_").sum(axis=1).tolist() == own.samples.tolist()
        measured = metrics[metrics.launch_id == launch.id].set_index("metric")
        assert set(measured.index) == set(launch.metric_names())
        assert measured.value["gpu__time_duration.sum"] == launch.require("duration").value
    assert lines.address.isna().all()
    assert metrics.value.dtype == "float64"
    assert metrics.set_index("id").text["device_name"].tolist() == ["NVIDIA H200"] * 3
    plain = api.explain(REPORTS / "tour_basic.ncu-repz")  # no numbers per instruction
    assert plain.to_pandas("lines").empty


@pytest.mark.slow
def test_hotspots(keet: Keet) -> None:
    chosen = ("--launch", "0,2", "--top", 2, "--format", "csv")
    rows = printed(keet, "hotspots", TOUR, *chosen).splitlines()
    made = api.hotspots(TOUR, launches="0,2", top=2)
    assert made.to_pandas().columns.tolist()[1:] == rows[0].split(",")[1:]
    line = api.hotspots(SLOW, line="slow.cu:7")
    assert line.to_text() == printed(keet, "hotspots", SLOW, "--line", "slow.cu:7")
    wrong = {"line": "slow.cu:2", "by": "lines", "top": 0}
    for name, value in wrong.items():
        with pytest.raises(api.UsageError, match=f"^{name}") as found:
            api.hotspots(SLOW, **{name: value})  # type: ignore[arg-type]
        assert "--" not in str(found.value)


@pytest.mark.slow
def test_a_batch_and_its_insights(keet: Keet, tmp_path: Path) -> None:
    """A report that can't be read is counted and named, and raises nothing."""
    store, cut = tmp_path / "store", tmp_path / "cut.ncu-rep"
    cut.write_bytes(SLOW.read_bytes()[:5000])
    frames = ROOT / "kernels_samples" / "blend_frames"
    made = api.batch([SLOW, FAST, frames, cut], store, jobs=2)
    assert (made.files, made.done, made.failed, made.unchanged) == (5, 4, 1, 0)
    assert made.to_pandas().path.tolist() == [str(cut)]
    assert f"failed: {cut}: " in str(made)
    again = api.batch(str(frames), str(store))
    assert (again.done, again.unchanged, len(again.failures)) == (0, 2, 1)
    with api.open_store(store) as opened:
        assert api.insights(opened).insights == api.insights(store).insights
    insights = api.insights(store)
    check_same(insights, keet, ("insights", store, "--no-model"), "json markdown")
    assert insights.to_pandas().kind.tolist() == ["cluster"]
    assert set(insights.to_pandas("facts").insight) == {"cluster-1"}
    with pytest.raises(api.UsageError, match="kernel 'gemm' matches no launch"):
        api.insights(store, kernel="gemm")
    with pytest.raises(api.UsageError, match="no folder or report was named"):
        api.batch([], store)


@pytest.mark.slow
def test_points_of_a_sweep(tmp_path: Path) -> None:
    times = {64: 300.0, 128: 200.0, 256: 100.0, 512: 150.0}
    made = [
        insights_sets.launch(f"/runs/step_block{n}.ncu-rep", duration_us=us, block=(n, 1, 1))
        for n, us in times.items()
    ]
    points = api.insights(insights_sets.make_set(tmp_path / "store", made)).to_pandas("points")
    assert points.value.tolist() == [*times]
    assert points.time_us.tolist() == [*times.values()]
    assert points.launch_id.tolist() == [0, 0, 0, 0]


def test_frames_have_the_columns_of_a_store() -> None:
    from keet.api import explain as frames
    from keet.corpus.store import schema as store

    assert {*frames.FINDING_COLUMNS} - {*store.FINDING_COLUMNS} == {"kernel", "action"}
    assert {*frames.ACCOUNT_COLUMNS} - {*store.ACCOUNT_COLUMNS} == {"kernel"}
    assert {*frames.LAUNCH_COLUMNS} <= {*store.LAUNCH_COLUMNS}


def test_launches_are_found_by_number_and_reprs_are_short(tour: api.ExplainResult) -> None:
    assert tour.launch(2).kernel == "normalise"
    assert tour.launch(2).launch is tour.profile[2]
    with pytest.raises(KeyError, match="launch 3 is not explained here; these are: 0, 1, 2"):
        tour.launch(3)
    roofline = api.roofline(TOUR)
    shown = [tour, tour.profile, *tour.profile, tour.findings, *tour.findings, tour.account]
    for each in [*shown, *tour.launches, roofline, *roofline.launches]:
        assert len(repr(each)) < 240, each
        assert "\n" not in repr(each)


def test_sides_with_equal_file_names_show_more_of_their_path() -> None:
    assert _side_names("a/b/slow.ncu", "a/c/slow.ncu") == ("b/slow.ncu", "c/slow.ncu")
    assert _side_names("a/slow.ncu", "b/fast.ncu") == ("slow.ncu", "fast.ncu")
    assert _side_names("x/r", "x/r") == ("r", "r")
    assert _side_names("r", "x/r") == ("r", "x/r")


def test_reprs_never_raise(tour: api.ExplainResult) -> None:
    """Bytes of a launch may be damaged, which shows when they are decoded."""

    class Damaged:
        def __getattr__(self, name: str) -> object:
            raise DamagedReport("report.ncu-rep", "its bytes were changed", "copy it again")

    launch = copied(tour.profile[0], 0)
    launch.data = Damaged()  # type: ignore[assignment]
    assert repr(launch) == "<Launch 0: transpose_rows, grid 64×256, block 32×8>"
    profile = replace(tour.profile, launches=(launch,))
    assert repr(profile) == "<Profile tour_full.ncu-repz: 1 launch>"
    assert "transpose_rows" in (profile._repr_html_() or "")


def test_a_missing_extra_is_named(tour: api.ExplainResult, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    for make in (tour.to_pandas, tour.account.to_pandas, tour.profile.to_pandas):
        with pytest.raises(NotAvailable, match=r"pip install '[\w-]+\[batch\]'"):
            make()
