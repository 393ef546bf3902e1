"""Replay against reality: which launches differ, and which reasons the evidence allows."""

import math

from hypothesis import assume, given
from hypothesis import strategies as st

from keet.analysis.launch_view import LaunchView
from keet.analysis.replay_gap import ReplayGap, replay_gap
from keet.analysis.replay_gap_reasons import ReplayReasons
from keet.documents.explain import ReplayReasonDocument
from keet.profile import KernelRun, Launch, Position, Profile, Provenance, RunPositions, RunTable
from keet.profile.run_table import Migrations, ProfiledLaunch
from keet.report.snapshot import InMemoryLaunch
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import H200, in_memory, raw

US = 1000.0
DURATION = "gpu__time_duration.sum"
HOST = "lts__t_sectors_srcunit_tex_aperture_sysmem_lookup_miss.sum"
SECTORS = "lts__t_sectors_srcunit_tex.sum"
CLOCK, MOST_CLOCK = "gpc__cycles_elapsed.avg.per_second", "device__attribute_clock_rate"
READ, L2 = "dram__bytes_read.sum", "device__attribute_l2_cache_size"
ISSUE = "sm__inst_issued.avg.pct_of_peak_sustained_elapsed"
DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
NO_FAULTS = Migrations(0, 0, 0)


def launch_with(metrics: dict[str, float], number: int = 0, name: str = "k") -> Launch:
    data = InMemoryLaunch(H200, raw(metrics))
    return in_memory(data, f"{name}()", number, blocks=1, threads=32)


def position_of(plain_us: float | None, launches: float = 100, **fields: object) -> Position:
    total = (plain_us or 0) * US * launches
    own = {"launches": launches, "total_ns": total, "busy_ns": total, "known_by": "launch"}
    own |= {"shapes": 1, "overlapped_ns": 0.0, "shortest_ns": None, "longest_ns": None}
    own["plain_ns"] = None if plain_us is None else plain_us * US
    return Position(**(own | fields))


def reasons(
    replay_us: float,
    position: Position,
    *,
    command: str | None = "ncu --clock-control none -o r ./app",
    version: str | None = "2025.3.1.0",
    others: tuple[tuple[str, float, float], ...] = (),
    metrics: dict[str, float] | None = None,
    **table: object,
) -> dict[str, ReplayReasonDocument]:
    """`others`: kernels of the report with their time under replay and in the run, in us."""
    first = launch_with({DURATION: replay_us * US, **(metrics or {})})
    rest = [
        launch_with({DURATION: replay * US}, number, name)
        for number, (name, replay, _) in enumerate(others, 1)
    ]
    kernel = KernelRun("_Z1kv", "k()", None, None, 100, position.total_ns, position.busy_ns)
    run = RunTable((kernel,), "cupti")._replace(**table)
    known = {"ncu_version": version, "command_line": command}
    profile = Profile((first, *rest), Provenance("made", "ncu-rep", 0, "0", "", **known), run=run)
    places = {0: position}
    places |= {n: position_of(plain) for n, (_, _, plain) in enumerate(others, 1)}
    unprofiled = tuple(each for each in run.kernels if each.name != "_Z1kv")
    positions = RunPositions(run, places, unprofiled, {"_Z1kv": (0,)})
    gap = replay_gap(first, position)
    found = ReplayReasons(profile, positions).of(LaunchView(first), gap, position)
    return {reason.id: reason for reason in found}


def statuses(replay_us: float, position: Position, **known: object) -> dict[str, str]:
    found = reasons(replay_us, position, **known)
    return {name: reason.status for name, reason in found.items()}


@each_row("replay_us, plain_us, differs", [
    (100, 150, False), (100, 151, True), (151, 100, True),
    (2.8, 0.9, False),  # ncu counts the start and the end of a short kernel
    (5, 3, False), (5.1, 3, True),
    (2.43, 4.3, True), (2.9, 4.3, False),  # ncu never reports less than CUPTI
])  # fmt: skip
def test_limits_of_a_replay_gap(replay_us: float, plain_us: float, differs: bool) -> None:
    launch = launch_with({DURATION: replay_us * US})
    assert (replay_gap(launch, position_of(plain_us)) is not None) is differs


def test_a_time_that_is_not_known_is_no_gap() -> None:
    for duration in (None, math.nan, math.inf, 0.0, -1.0):
        metrics = {} if duration is None else {DURATION: duration}
        assert replay_gap(launch_with(metrics), position_of(1000)) is None
    for position in (None, position_of(None), position_of(0)):
        assert replay_gap(launch_with({DURATION: 1000.0}), position) is None
    for gap, ratio in ((ReplayGap(5_000, 2_500_000), 500), (ReplayGap(2_500_000, 5_000), 1 / 500)):
        assert (gap.ratio, gap.factor, gap.run_is_longer) == (ratio, 500, ratio > 1)


def test_memory_of_the_host_and_shapes_that_the_run_does_not_have(wording) -> None:
    moved = {"managed_bytes": 1 << 20, "migrations": Migrations(100 << 20, 100 << 20, 1600)}
    found = reasons(5.1, position_of(2410), metrics={HOST: 0, SECTORS: 40_000}, **moved)
    assert [reason.status for reason in found.values()] == ["likely"] + ["ruled_out"] * 4
    first = found["managed_or_host_memory"]
    wording(first.text)
    assert [piece.value for piece in first.evidence] == [1600, 100 << 20]
    moved["migrations"] = Migrations(1 << 20, 0, 0)
    found = reasons(100, position_of(300), **moved)["managed_or_host_memory"]
    assert found.status == "possible"
    wording(found.text)
    moved = {"managed_bytes": 0, "migrations": NO_FAULTS, "metrics": {HOST: 3, SECTORS: 40}}
    first = reasons(4, position_of(2000), **moved)["managed_or_host_memory"]
    assert (first.status, first.text[:7]) == ("likely", "8% of t")
    position = position_of(300, known_by="kernel")
    found = reasons(100, position, kernels=(shaped(2, 90, 900),))["not_typical"]
    assert found.status == "likely"
    wording(found.text)
    kernel = KernelRun("_Z1kv", "k()", None, None, 1, 300 * US, 300 * US)
    position = position_of(300, launches=1, known_by="kernel")
    assert statuses(100, position, kernels=(kernel,))["not_typical"] == "ruled_out"


@each_row("status, own_ms, other_ms, groups", [
    ("likely", 30, 0.001, 100), ("likely", 30, 0.9, 100),
    ("possible", 30, 1.1, 100), ("possible", 30, 30, 100),  # it has time for 100 groups of 10 us
    ("possible", 30, 0.001, 3000),  # more than the kernel lost time for
])  # fmt: skip
def test_faults_are_counted_for_the_whole_run(status, own_ms, other_ms, groups) -> None:
    """100 launches of 100 us under replay; the other kernel was not profiled."""
    own = KernelRun("_Z1kv", "k()", None, None, 100, own_ms * 1e6, own_ms * 1e6)
    other = KernelRun("_Z1wv", "w()", None, None, 3, other_ms * 1e6, other_ms * 1e6)
    faults = {"managed_bytes": 1 << 20, "migrations": Migrations(1 << 20, 0, groups)}
    position = position_of(own_ms * 10, launches=100)
    found = statuses(100, position, kernels=(own, other), **faults)
    assert found["managed_or_host_memory"] == status


def test_other_kernels_at_the_same_time() -> None:
    # A thousand launches took too long, and ten groups can't do that. They are enough for the first
    # launch alone.
    faults = {"managed_bytes": 1 << 20, "migrations": Migrations(1 << 20, 0, 10)}
    shared = {"overlapped_ns": 0.9 * 300 * US * 1000, "busy_ns": 100 * US * 1000}
    found = statuses(100, position_of(300, launches=1000, **shared), **faults)
    assert (found["managed_or_host_memory"], found["concurrency"]) == ("possible", "likely")
    first = position_of(5000, launches=100, total_ns=99 * 100 * US + 5000 * US)
    faults = {"managed_bytes": 1 << 30, "migrations": Migrations(1 << 30, 0, 10)}
    assert statuses(100, first, **faults)["managed_or_host_memory"] == "likely"
    total = 2400 * US * 100
    position = position_of(2400, overlapped_ns=0.4 * total, busy_ns=0.8 * total)
    assert statuses(5, position)["concurrency"] == "possible"
    position = position_of(300, overlapped_ns=None)
    assert statuses(100, position)["concurrency"] == "possible"
    assert statuses(100, position, recorder="ncu")["concurrency"] == "ruled_out"


@each_row("managed, migrations, metrics, status", [
    # The driver's sectors are in every launch that ncu replays, and not the kernel's host memory.
    (0, NO_FAULTS, {HOST: 0, SECTORS: 3136, "lts__t_sectors_aperture_sysmem.sum": 25_000},
     "ruled_out"),
    # What is not known rules nothing out.
    (None, NO_FAULTS, {HOST: 0, SECTORS: 1}, "possible"),
    (0, None, {HOST: 0, SECTORS: 1}, "possible"),
    (0, NO_FAULTS, {}, "possible"),
])  # fmt: skip
def test_what_rules_host_memory_out(managed, migrations, metrics, status) -> None:
    known = {"metrics": metrics, "managed_bytes": managed, "migrations": migrations}
    assert statuses(10, position_of(300), **known)["managed_or_host_memory"] == status


FITS = {READ: 16e6, L2: 60e6}


def test_bytes_that_fit_the_l2_and_a_ratio_that_all_kernels_share(wording) -> None:
    found = reasons(100, position_of(50), metrics=FITS)
    assert found["cold_caches"].status == "likely"
    wording(found["cold_caches"].text)
    others = (("a", 50, 84), ("b", 200, 350))
    found = reasons(100, position_of(170), others=others)
    assert found["clocks"].status == "likely"
    wording(found["clocks"].text)


SLOW_CLOCK = {CLOCK: 1.2e9, MOST_CLOCK: 1_980_000}


@each_row("reason, status, plain_us, known", [
    ("cold_caches", "ruled_out", 50, {"metrics": FITS, "command": "ncu --cache-control none ./app"}),
    ("cold_caches", "ruled_out", 50, {"metrics": {**FITS, ISSUE: 80.0}}),
    ("cold_caches", "likely", 50, {"metrics": {**FITS, ISSUE: 40.0}}),
    ("cold_caches", "possible", 50, {"metrics": FITS, "command": None}),
    ("cold_caches", "possible", 50, {"metrics": {READ: 90e6, L2: 60e6}}),
    ("cold_caches", "possible", 50, {"metrics": {READ: 16e6}}),
    ("cold_caches", "possible", 10, {"metrics": FITS}),  # they make no kernel ten times as fast
    ("clocks", "likely", 60, {"metrics": SLOW_CLOCK}),
    ("clocks", "ruled_out", 60, {"metrics": {CLOCK: 1.98e9, MOST_CLOCK: 1_980_000}}),
    ("clocks", "ruled_out", 60, {"metrics": {**SLOW_CLOCK, DRAM: 90.0}}),
    ("clocks", "ruled_out", 30, {"metrics": SLOW_CLOCK}),
    ("clocks", "likely", 60, {"command": "ncu ./app"}),
    ("clocks", "likely", 60, {"command": "ncu --clock-control base ./app"}),
    ("clocks", "possible", 60, {"command": "ncu ./app", "version": "2026.1.0.0"}),
    ("clocks", "possible", 60, {"command": "ncu ./app --clock-control base", "version": None}),
    ("clocks", "possible", 60, {}),
    ("clocks", "possible", 170, {"command": "ncu ./app"}),
    ("clocks", "ruled_out", 260, {}),
    # Ratios that kernels do not share: two are a coincidence, one kernel twice, another one, and
    # one that is too short to compare clocks.
    ("clocks", "possible", 170, {"others": (("a", 50, 85),)}),
    ("clocks", "possible", 170, {"others": (("a", 50, 85), ("a", 51, 86))}),
    ("clocks", "possible", 170, {"others": (("a", 50, 85), ("b", 200, 210))}),
    ("clocks", "possible", 170, {"others": (("a", 50, 85), ("b", 2, 3.4))}),
])  # fmt: skip
def test_when_caches_and_clocks_can_be_the_reason(reason, status, plain_us, known) -> None:
    assert statuses(100, position_of(plain_us), **known)[reason] == status


@each_row("status, known_by, shortest_us, longest_us, shapes", [
    ("ruled_out", "launch", None, None, 1), ("possible", "shape", None, None, 1),
    ("likely", "shape", 90, 900, 1), ("possible", "shape", 110, 900, 1),
    ("ruled_out", "shape", 250, 400, 1), ("possible", "shape", 90, 900, 2),
    ("possible", "kernel", None, None, 1), ("ruled_out", "kernel", 250, 400, 1),
])  # fmt: skip
def test_when_the_launch_is_not_typical(status, known_by, shortest_us, longest_us, shapes) -> None:
    shortest, longest = (us and us * US for us in (shortest_us, longest_us))
    took = {"shortest_ns": shortest, "longest_ns": longest, "shapes": shapes}
    assert statuses(100, position_of(300, known_by=known_by, **took))["not_typical"] == status


def test_advice_that_was_followed_is_not_given(wording) -> None:
    frequency = "compare the report's SM frequency with nvidia-smi during the run"
    for command, told in (
        ("ncu --clock-control none ./app", frequency),
        ("ncu ./app", f"{frequency}, and profile with --clock-control none"),
        (None, f"{frequency}, and profile with --clock-control none"),
    ):
        assert reasons(100, position_of(170), command=command)["clocks"].how_to_tell == told
    by_keet = "ncu --export /t/.keet-profile-a1/report_0.ncu-rep ./app"
    profiled = (ProfiledLaunch(0, 3, 170 * US),)
    found = reasons(100, position_of(170), command=by_keet, profiled=profiled)
    wording(found["not_typical"].how_to_tell)


@each_row("status, share, at_once", [
    ("ruled_out", 0.0, 1), ("ruled_out", 0.001, 1), ("ruled_out", 0.04, 3), ("possible", 0.2, 3),
    ("likely", 0.8, 3), ("likely", 1, 8), ("likely", 1, 2), ("possible", 1, 1.9), ("ruled_out", 1, 1),
])  # fmt: skip
def test_when_other_kernels_can_be_the_reason(status, share, at_once, wording) -> None:
    """For a share of its time, so many kernels share the GPU; it is three times slower."""
    total = 300 * US * 100
    busy = total * (1 - share + share / at_once)
    found = reasons(100, position_of(300, overlapped_ns=share * total, busy_ns=busy))["concurrency"]
    assert found.status == status
    if share in (0, 0.001, 1):
        wording(found.text, case=f"{at_once} at a time for {share} of it")


def shaped(grid: int, shortest_us: float, longest_us: float) -> KernelRun:
    made = KernelRun("_Z1kv", "k()", (grid, 1, 1), (32, 1, 1), 50, 15e6, 15e6)
    return made._replace(shortest_ns=shortest_us * US, longest_ns=longest_us * US)


@each_row("status, ending, row", [
    ("possible", "launches of this shape took 90 us to 900 us", shaped(1, 90, 900)),
    *(("ruled_out", "with this number, kernel and shape", row)
      for row in (shaped(1, 280, 300), shaped(1, 160, 900), shaped(2, 90, 900))),
])  # fmt: skip
def test_a_launch_of_this_number_in_another_execution(status, ending, row) -> None:
    found = reasons(100, position_of(300), kernels=(row,))["not_typical"]
    assert found.status == status
    assert found.text.endswith(ending)


@given(
    *(st.floats(1, 1e5), st.floats(1, 1e5), st.none() | st.floats(0, 1)),
    *(st.sampled_from(["launch", "shape", "kernel"]), st.none() | st.integers(0, 10_000)),
    st.sampled_from([None, "ncu ./app", "ncu --cache-control none ./app"]),
)
def test_each_reason_once_and_in_order(replay, plain, overlap, known_by, faults, command) -> None:
    share = None if overlap is None else overlap * plain * US * 100
    position = position_of(plain, overlapped_ns=share, known_by=known_by)
    assume(replay_gap(launch_with({DURATION: replay * US}), position))
    moved = None if faults is None else Migrations(faults, 0, faults)
    known = {"metrics": {**FITS, HOST: 0, SECTORS: 100}, "managed_bytes": faults}
    found = reasons(replay, position, command=command, migrations=moved, **known)
    assert len(found) == 5
    order = ["likely", "possible", "ruled_out"]
    ranks = [order.index(reason.status) for reason in found.values()]
    assert ranks == sorted(ranks)
    impossible = ("cold_caches",) if plain > replay else ("managed_or_host_memory", "concurrency")
    assert all(found[name].status == "ruled_out" for name in impossible)
