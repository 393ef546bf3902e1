"""Amounts across launches: groups by duration, what was not profiled, state, hand-overs, bounds."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from keet.analysis.launch_view import LaunchView
from keet.analysis.ledger import Ledger
from keet.analysis.several_launches import hand_overs
from keet.analysis.several_launches.launch_sets import launch_sets
from keet.analysis.several_launches.program_amounts import program_amounts
from keet.documents.amounts import ArrayDocument, ProgramAmounts
from keet.evidence import Sentence
from keet.profile import KernelRun, Launch, Profile, Provenance, RunTable
from keet.profile.run_table import ProfiledLaunch, RunLaunch
from keet.report import read_profile
from tests.conftest import TESTS
from tests.many_launches import copied
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import H200, made_up

RUNS = TESTS / "data" / "runs"
PROGRAMS = TESTS.parent / "evals" / "amounts" / "programs"
DEVICE = {
    "device_l2_size": 50e6,
    "device_sm_count": 132.0,
    "device_shared_memory_per_sm": 228 * 1024.0,
    "device_registers_per_sm": 65536.0,
}


@cache
def of_run(name: str) -> Profile:
    return read_profile(RUNS / f"{name}.ncu-repz")


def amounts_of(profile: Profile) -> ProgramAmounts:
    """Each number of a text is in the evidence of the document."""
    views = [LaunchView(launch) for launch in profile.launches]
    found = program_amounts(profile, views, Ledger())
    rows: list[Any] = [*found.groups, *found.states, *found.hand_overs, *found.bounds]
    for each in (*rows, *found.rereads):
        own = {piece.id for piece in each.evidence}
        assert {*each.text.ids} <= own & {*found.evidence}, each.text
        assert not each.text.endswith(".")
    for text in (*(row.detail for row in found.states), *found.texts):
        assert {*text.ids} <= {*found.evidence}, text
    return found


def _launch(number: int, function: str, reads: float, writes: float, us: float = 100.0) -> Launch:
    """A made-up launch; amounts in MB."""
    sectors = {"l2_l1_read_sectors": 1e6 * reads / 32, "l2_l1_write_sectors": 1e6 * writes / 32}
    dram = {"dram_bytes_read": 1e6 * reads, "dram_bytes_written": 1e6 * writes}
    rate = {"dram_peak_bytes_per_cycle": 1000.0, "dram_frequency": 4e9}
    rate |= {"l2_peak_bytes_per_cycle": 5000.0, "l2_clock": 2e9}
    rate |= {"l2_l1_sectors": sum(sectors.values()), "l2_sectors": sum(sectors.values())}
    counts = sectors | dram | rate | DEVICE
    made = made_up({"dram": 50.0}, None, None, H200, duration=1e3 * us, **counts)
    other = copied(made, number)
    name = f"{function}(float *)"
    other.name = made.name._replace(demangled=name, function=function, mangled=function)
    return other


def _profile(launches: Sequence[Launch], run: RunTable | None = None) -> Profile:
    line = "ncu --cache-control all -o report ./app"
    origin = Provenance("a", "ncu-rep", 1, "0" * 64, "test", "2025.3.0", command_line=line)
    return Profile(tuple(launches), origin, run=run)


def _run(order: Sequence[tuple[str, float]], profiled: Sequence[tuple[int, int]] = ()) -> RunTable:
    """A run of kernels one after the other, each with its microseconds. `profiled`: launches of the
    report, with their numbers in the run."""
    names, kernels = [*dict.fromkeys(name for name, _ in order)], []
    for name in names:
        own = sorted(1e3 * us for each, us in order if each == name)
        shape, total = ((1000, 1, 1), (256, 1, 1), len(own)), sum(own)
        times = (total, total, 0.0, own[0], own[len(own) // 2], own[-1])
        kernels.append(KernelRun(name, f"{name}(float *)", *shape, *times))
    start, launches = 0, []
    for name, us in order:
        launches.append(RunLaunch(names.index(name), start, round(1e3 * us)))
        start += round(1e3 * us) + 2000
    exact = tuple(ProfiledLaunch(a, b, 1e3 * order[b][1]) for a, b in profiled)
    known = {"profiled": exact, "span_ns": float(start), "gpus": 1}
    return RunTable(tuple(kernels), "cupti", tuple(launches), **known)


def in_run(
    order: Sequence[tuple[str, float]], *launches: Launch, profiled: Sequence[tuple[int, int]] = ()
) -> ProgramAmounts:
    return amounts_of(_profile(launches, _run(order, profiled)))


def groups_of(order: Sequence[tuple[str, float]]) -> Sequence[Any]:
    return launch_sets(_profile([_launch(0, "infer", 20, 1)], _run(order))).sets


def bounds_by_id(found: ProgramAmounts) -> dict[str, Any]:
    return {bound.id: bound for bound in found.bounds}


def test_groups_and_kernels_that_were_not_profiled() -> None:
    order = [("infer", us) for _ in range(20) for us in (900.0, 40.0)]
    long, short = in_run(order, _launch(0, "infer", 20, 1), profiled=[(0, 5)]).groups
    assert (long.launches, short.launches, long.us_median) == (20, 20, pytest.approx(900))
    assert (short.us_median, long.share_pct) == (pytest.approx(40), pytest.approx(100 * 900 / 940))
    assert (long.profiled, short.profiled) == ((), (0,)), "number 5 is a short one"
    assert len(groups_of([("infer", 100.0 + 3 * at) for at in range(40)])) == 1
    # One of many launches that takes hardly any of the time is no group.
    (only,) = groups_of([("infer", 1.0), *[("infer", 100.0)] * 40])
    assert only.launches == 41
    launches = [_launch(n, "infer", 20, 1, us) for n, us in enumerate((900, 40, 905, 41))]
    groups = amounts_of(_profile(launches)).groups
    assert [group.profiled for group in groups] == [(0, 2), (1, 3)]
    assert sum(group.share_pct for group in groups) == pytest.approx(100)
    profile = _profile([_launch(0, "infer", 20, 1)])
    assert program_amounts(profile, [], Ledger()) is None
    order = [("step", 90.0), ("norm", 7.0), ("sum", 3.0)] * 10
    found = in_run(order, _launch(0, "step", 20, 20))
    (text,) = [text for text in found.texts if "not profiled" in text]
    assert {"norm", "sum"} <= {word.strip("(;,") for word in text.split()}
    assert "step" not in text
    shares = {group.kernel: group.share_pct for group in found.groups if not group.profiled}
    assert shares == {"norm": pytest.approx(7), "sum": pytest.approx(3)}
    assert [p.value for p in text.evidence.values() if p.unit == "%"] == [pytest.approx(10)]
    assert not [text for text in amounts_of(of_run("waits_range")).texts if "profiled" in text]


def test_gathers_may_need_any_part_of_the_data(monkeypatch, wording) -> None:
    """A graph does no several steps on parts of itself."""
    monkeypatch.setattr(hand_overs, "gathered_share", lambda view: 0.5)
    (state,) = in_run([("spin", 170.0)] * 100, LARGE).states
    assert state.us is None
    assert not [piece for piece in state.text.evidence.values() if "steps" in piece.label]
    wording(state.text)
    (state,) = in_run(TURNS * 120, _launch(0, "spin", 17.6, 5.4, 20.0)).states
    assert state.us, "what fits on the chip can stay there"


TURNS = [("spin", 17.0)] * 10
LARGE = _launch(0, "spin", 300, 300, 200.0)


def test_states_and_short_launches(wording) -> None:
    found = in_run(TURNS * 120, _launch(0, "spin", 17.6, 5.4, 20.0))
    (state,) = found.states
    assert (state.launches, state.steps, state.kernels) == (1200, 10, ("spin",))
    assert state.bytes_per_launch == pytest.approx(23e6)
    assert state.distinct_bytes is None, "without machine code, both amounts may be the same data"
    assert state.fits == ("L2", "shared memory", "registers")
    assert {120.0, 1200.0} <= {float(piece.value) for piece in state.text.evidence.values()}
    wording(state.text)
    assert bounds_by_id(found)["state_on_chip"].us == state.us
    assert state.us == pytest.approx(120 * 23e6 / 1e13 * 1e6), "at L2's rate"
    found = in_run([("spin", 170.0)] * 100, LARGE)
    (state,) = found.states
    assert state.fits == ()
    assert state.us == pytest.approx(10 * 600e6 / 4e12 * 1e6), "at DRAM's rate"
    assert "state_on_chip" not in bounds_by_id(found)
    assert not amounts_of(_profile([_launch(n, "spin", 17, 5) for n in range(4)])).states
    found = amounts_of(of_run("steps_many"))
    group = found.groups[0]
    assert (group.kernel, group.launches) == ("smooth_step", 400)
    assert 0.3 * (group.us_median or 0) < (group.fixed_us or 0) < (group.us_median or 0)
    (text,) = [text for text in found.texts if "launches of smooth_step" in text]
    (gap,) = [piece for piece in text.evidence.values() if "without a kernel" in piece.label]
    assert gap.unit == "ns"
    assert 3000 < gap.value < 4000
    found = amounts_of(of_run("managed"))
    assert (found.groups[0].fixed_us, *found.states, *found.bounds) == (None,)
    # The same program with one stream and with eight.
    assert amounts_of(of_run("streams_serial")).states
    assert not amounts_of(of_run("streams_together")).states


def test_kernels_that_take_turns_and_what_is_not_known() -> None:
    for reads, writes, told in ((20.0, 0.0, "bytes read"), (0.0, 20.0, "bytes written")):
        (state,) = in_run(TURNS * 10, _launch(0, "spin", reads, writes)).states
        assert [p.label for p in state.text.evidence.values() if p.unit == "byte"] == [told]
    # With a kernel that was not profiled, what a turn moves is unknown.
    red, black, launches = ("red", 17.0), ("black", 17.0), [_launch(0, "red", 10, 5)]
    launches += [_launch(1, "black", 10, 5)]
    for us, has_state in ((0.1, True), (50.0, False)):
        found = in_run([red, ("other", us), black] * 50, *launches)
        assert bool(found.states) == has_state
    first, *others = in_run([red, black] * 50, *launches).states
    assert first.kernels == ("red", "black")
    assert first.bytes_per_launch == pytest.approx(30e6)
    assert not others, "one of them alone can't do several steps"
    apart = in_run([*[red] * 50, *[black] * 50], *launches)
    assert {len(state.kernels) for state in apart.states} == {1}


def handed_over(moved: dict[str, tuple[float, float]]) -> Sequence[Any]:
    """Between launches that read and write so much."""
    launches = [_launch(n, name, *amounts) for n, (name, amounts) in enumerate(moved.items())]
    return amounts_of(_profile(launches)).hand_overs


def test_all_readers_of_as_much_are_candidates() -> None:
    """The nearest amount is not always the right consumer."""
    moved = {"integrate": (50, 98), "mask": (98, 10), "other": (40, 10), "project": (97, 10)}
    found = handed_over(moved)
    known = (pytest.approx(98e6), pytest.approx(2 * 98e6 / 4e12 * 1e6))
    pairs = [(each.writer, each.reader, each.bytes, each.us) for each in found]
    assert pairs == [("integrate", reader, *known) for reader in ("mask", "project")]
    assert all(each.text.startswith("candidate") for each in found)
    # An earlier launch reads nothing of a later one.
    assert not handed_over({"mask": (98, 10), "integrate": (50, 98)})
    # The reader that follows comes before one behind another writer.
    found = handed_over(dict.fromkeys(("first", "second", "third"), (98, 98)))
    pairs = [(each.writer, each.reader) for each in found]
    assert pairs == [("first", "second"), ("second", "third"), ("first", "third")]


def test_bounds_of_the_same_bytes_and_of_each_byte_once(known) -> None:
    order = [("spin", 17.0), ("rest", 1.0)] * 100
    found = in_run(order, _launch(0, "spin", 17.6, 5.4, 20.0))
    assert bounds_by_id(found)["same_bytes"].us == pytest.approx(100 * 23e6 / 4e12 * 1e6)
    assert "same_bytes" not in bounds_by_id(amounts_of(of_run("waits")))
    known["spin"] = [_array("spins", "updated", 10)]
    found = in_run(TURNS * 10, _launch(0, "spin", 40, 10, 20.0))
    same, once = [bound for bound in found.bounds if bound.id != "state_on_chip"]
    assert (same.id, once.id) == ("same_bytes", "bytes_once")
    assert once.us == pytest.approx(100 * 10e6 / 4e12 * 1e6)


def _array(name: str, access: Any, size: float | None, basis: Any = "exact") -> ArrayDocument:
    """`size` in MB."""
    known = None if size is None else 1e6 * size
    given: Any = {"name": name, "access": access, "distinct_bytes": known, "basis": basis}
    given |= {"text": Sentence(), "evidence": (), "again": (), "lines": ()}
    return ArrayDocument(**dict.fromkeys(ArrayDocument.names()) | given)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[ArrayDocument]]:
    """Arrays by kernel, to be filled by a test."""
    found: dict[str, list[ArrayDocument]] = {}
    monkeypatch.setattr(
        hand_overs, "arrays", lambda view: tuple(found.get(view.launch.name.function, ()))
    )
    return found


@each_row("arrays, moved, expected", [
    # `mask` reads as many bytes in all, but none of its arrays is as large.
    ({"integrate": [("image", "read", 50), ("integral", "written", 98)],
      "mask": [("a", "read", 60), ("b", "read", 38)],
      "project": [("integral", "read", 98), ("table", "read", 98)]},
     [(50, 98), (98, 10), (196, 10)], ["project: integral, integral"]),
    # With other names, all are candidates.
    ({"integrate": [("out", "written", 98)],
      "project": [("a", "read", 98), ("b", "read", 97), ("c", "read", 30)]},
     [(50, 98), (225, 10)], ["project: out, a, b"]),
    # Two members of one structure are not the same array.
    ({"integrate": [("nodes.f", "written", 98)],
      "project": [("nodes.v", "read", 98), ("mass", "read", 98)]},
     [(50, 98), (225, 10)], ["project: nodes.f, mass"]),
    # Small ones are candidates only with one name.
    ({"dot": [("partial", "written", 0.004), ("sum", "written", 0.004)],
      "finish": [("partial", "read", 0.004), ("other", "read", 0.004)]},
     [(50, 1), (1, 1)], ["finish: partial, partial"]),
    # Forces that atomics add up at indices from memory, read by the next kernel: what is read says
    # nothing about what was written.
    ({"scatter": [(name, "updated", None, None) for name in ("fx", "fy")],
      "move": [(name, "updated", 7) for name in ("fx", "fy", "vx")]},
     [(50, 1), (21, 21)], ["move: fx, fy, fx, fy"]),
    # A member of a struct may be a plain parameter of another kernel.
    ({"update": [("elements.stress", "written", 42)],
      "scatter": [("stress", "read", 42), ("corners", "read", 42)],
      "other": [("nodes.stress", "read", 42)]},
     [(42, 42), (42, 42), (42, 42)], ["scatter: elements.stress, stress"]),
    # Parameters without a name are compared by size only.
    ({"one": [("param+0x10", "written", 98)], "other": [("param+0x10", "read", None, None)]},
     [(50, 98), (40, 1)], []),
])  # fmt: skip
def test_arrays_of_equal_size_are_paired_not_totals(arrays, moved, expected, known) -> None:
    known.clear()
    known.update({kernel: [_array(*each) for each in row] for kernel, row in arrays.items()})
    found = handed_over(dict(zip(arrays, moved, strict=False)))
    assert [f"{e.reader}: {e.writer_array}, {e.reader_array}" for e in found] == expected
    assert all((each.bytes is None) == ("scatter" in (each.writer,)) for each in found)


def test_hand_overs_between_launches_and_within_a_kernel(known) -> None:
    known["support"] = [_array("v", "written", 98, "bound")]
    known["update"] = [_array("v", "updated", 98)]
    known["energy"] = [_array("v", "read", 98)]
    moved = {"support": (1, 2), "update": (98, 98), "energy": (98, 1)}
    pairs = {(each.writer, each.reader) for each in handed_over(moved)}
    assert ("support", "energy") not in pairs
    assert {("support", "update"), ("update", "energy")} <= pairs
    known["spin"] = [_array("black", "updated", 12), _array("white", "read", 12)]
    (only,) = in_run(TURNS, _launch(0, "spin", 24, 12)).hand_overs
    assert (only.writer, only.reader, only.reader_array) == ("spin", "spin", "black")
    assert not in_run(TURNS[:1], _launch(0, "spin", 24, 12)).hand_overs


def test_kernels_of_a_loop_share_arrays_of_one_name(known) -> None:
    """A solver: 51 launches of one kernel, 48 of the others, and 5 arrays of 8 MB."""
    known["apply"] = [_array("p", "read", 8), _array("c", "read", 8), _array("q", "written", 8)]
    known["solve"] = [_array(name, "updated", 8) for name in "xr"]
    known["solve"] += [_array(name, "read", 8) for name in "pq"]
    known["turn"] = [_array("r", "read", 8), _array("p", "updated", 8)]
    order = [("turn", 9.0), *[("apply", 9.0), ("solve", 9.0), ("turn", 9.0)] * 16] * 3
    launches = [_launch(0, "turn", 16, 8), _launch(1, "apply", 16, 8), _launch(2, "solve", 32, 16)]
    first, *_ = in_run(order, *launches).states
    assert (first.kernels, first.launches) == (("turn", "apply", "solve"), 48)
    (size,) = [p for p in first.detail.evidence.values() if p.label == "bytes of data"]
    assert size.value == pytest.approx(40e6)
    assert first.fits[:1] == ("L2",)
    assert first.distinct_bytes is None, "names are no proof"


def test_data_that_certainly_exceeds_the_chip_and_data_that_may(known) -> None:
    (may,) = in_run([("spin", 170.0)] * 100, LARGE).states
    known["spin"] = [_array("a", "read", 300), _array("b", "written", 300)]
    (does,) = in_run([("spin", 170.0)] * 100, LARGE).states
    assert "may not fit" in may.detail
    assert "does not fit" in does.detail


def _read_array(name: str, dram: float, l2: float | None = None, **more: Any) -> ArrayDocument:
    """One of unknown size, in MB, that has all of the traffic of its launch."""
    own = {"dram_bytes": 1e6 * dram, "l2_bytes": l2 and 1e6 * l2, "traffic_basis": "measured"}
    return replace(_array(name, "read", None, None), **(own | more))


def read_again(*kernels: str) -> Sequence[Any]:
    return amounts_of(_profile([_launch(n, each, 9, 9) for n, each in enumerate(kernels)])).rereads


def test_an_array_is_read_again_by_the_size_that_another_kernel_writes(known) -> None:
    known["condition"] = [_array("terms", "written", 200), _array("gains", "written", 50)]
    known["project"] = [_read_array("terms", 4000, 40_000)]
    known["scale"] = [_read_array("gains", 100)]
    first, second = read_again("condition", "project", "scale")
    assert (first.writer, first.reader, first.array) == ("condition", "project", "terms")
    assert (first.bytes, first.dram_bytes) == (200e6, 4000e6)
    assert (first.times_from_dram, first.times_from_l2) == (20, 200)
    assert (second.array, second.times_from_dram, second.times_from_l2) == ("gains", 2, None)
    known["first"] = [_array("terms", "written", 200)]
    known["second"] = [_array("terms", "written", 20)]
    known["project"] = [_read_array("terms", 4000)]
    assert not read_again("first", "second", "project")


@each_row("read", [
    _read_array("terms", 205, 205),  # each byte about once
    _read_array("terms", 4000, traffic_basis="apportioned"),
    _read_array("terms", 4000, distinct_bytes=200e6, basis="exact"),  # it tells its size
    _read_array("terms", 4000, access="updated"),
    _read_array("other", 4000),
])  # fmt: skip
def test_arrays_of_which_that_is_not_known(known, read) -> None:
    known["condition"] = [_array("terms", "written", 200)]
    known["project"] = [read]
    assert not read_again("condition", "project")


@each_row("table, basis, distinct", [
    (3, "exact", pytest.approx(23e6)),
    # With an array of unknown size, the state is at most what is moved.
    (3.0, "bound", None),
    (None, None, None),
])  # fmt: skip
def test_state_that_is_updated_in_place_counts_once(known, table, basis, distinct) -> None:
    known["spin"] = [_array("spins", "updated", 20), _array("table", "read", table, basis)]
    (state,) = in_run(TURNS * 10, _launch(0, "spin", 23, 20)).states
    assert (state.distinct_bytes, state.bytes_per_launch) == (distinct, pytest.approx(43e6))


def of_program(name: str) -> ProgramAmounts:
    """Without machine code."""
    return amounts_of(read_profile(PROGRAMS / f"{name}.ncu-repz"))


def test_programs_with_known_answers() -> None:
    # Each reads both colours of 12.6 MB and writes one.
    found = of_program("ising")
    (state,) = found.states
    assert (state.kernels, state.launches) == (("update_colour",), 1200)
    assert state.bytes_per_launch == pytest.approx(37_748_736, rel=0.02)
    assert state.fits[:1] == ("L2",)
    assert (state.share_pct or 0) > 50
    assert {"state_on_chip", "same_bytes"} <= bounds_by_id(found).keys()
    found = of_program("reactive")
    (state,) = found.states
    solver = {"apply_operator": 48, "finish_dot": 99, "update_solution": 48, "update_direction": 51}
    assert ({*state.kernels}, state.launches) == ({*solver}, 48)
    short = {group.kernel: group.launches for group in found.groups if group.launches > 3}
    assert short == solver
    assert all(group.fixed_us for group in found.groups if group.kernel in solver)
    found = of_program("topics")
    groups = [group for group in found.groups if group.kernel == "infer_documents"]
    assert [(each.launches, each.grid) for each in groups] == [(24, (4096, 1, 1)), (7, (264, 1, 1))]
    assert sum(1 for group in found.groups if not group.profiled) == 5
    # The launches compute for a millisecond with 9 MB.
    (state,) = found.states
    assert (state.share_pct or 0) < 1
    assert "state_on_chip" not in bounds_by_id(found)
    (state,) = of_program("impact").states
    assert (state.launches, state.fits) == (60, ())
    assert {*state.kernels} == {"update_stresses", "scatter_forces", "update_nodes"}


@pytest.mark.slow
def test_an_intermediate_array_is_read_many_times() -> None:
    """`terms`: 201 MB are written once. DRAM delivers 4.04 GB, and nothing else reads much."""
    profile = read_profile(PROGRAMS / "photoacoustic_first.ncu-repz")
    views = [LaunchView(launch, reads_code=True) for launch in profile.launches[3:5]]
    found = program_amounts(profile, views, Ledger())
    (only,) = found.rereads
    assert (only.writer, only.reader, only.array) == ("condition_records", "back_project", "terms")
    assert (only.bytes, only.times_from_dram) == (201_326_592, pytest.approx(20.08, rel=0.01))
    assert (only.times_from_l2 or 0) > 200
