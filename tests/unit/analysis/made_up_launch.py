"""Launches with made-up counters: what reports may hold, in any combination."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from hypothesis import strategies as st

from keet.analysis.launch_view import LaunchView
from keet.analysis.time_model import TimeModel
from keet.catalog import hardware_units, metric_with_id
from keet.profile import Device, Instances, KernelName, Launch, RawMetric, Workload
from keet.report.ncu_rep.container import blocks_of
from keet.report.ncu_rep.reader import Report
from keet.report.snapshot import InMemoryLaunch
from tests import encode
from tests.unit.machine_code.assembled import assembled

UNITS = ("dram", "l2", "l1", "lsu", "fma", "alu", "fp64", "xu", "tensor", "issue_slots")
"""Ids of hardware units in the catalog."""
STATES = ("long_scoreboard", "short_scoreboard", "wait", "barrier", "math_pipe_throttle", "membar")
READY = ("selected", "not_selected")
ELAPSED = 1_000_000
H200 = Device("NVIDIA H200", "9.0", 132)
GEFORCE = Device("NVIDIA GeForce RTX 3080", "8.6", 68)


def raw(metrics: Mapping[str, float]) -> dict[str, RawMetric]:
    return {name: RawMetric(value) for name, value in metrics.items()}


def in_memory(
    data: InMemoryLaunch, name: str = "k()", number: int = 0, blocks: int = 1000, threads: int = 256
) -> Launch:
    function = name.partition("(")[0]
    return Launch(
        number=number,
        name=KernelName(function, name, f"_Z1{function}v"),
        workload=Workload.KERNEL,
        grid=(blocks, 1, 1),
        block=(threads, 1, 1),
        data=data,
    )


def made_up(
    units: Mapping[str, float],
    states: Mapping[str, float] | None = None,
    opcodes: Mapping[str, int] | None = None,
    device: Device = H200,
    **metrics: float,
) -> Launch:
    """`units`: per cent of peak. `states`: cycles per instruction. `metrics`: by catalog id."""
    named = {hardware_units()[unit].share_of_peak[0]: share for unit, share in units.items()}
    named |= {
        f"smsp__average_warps_issue_stalled_{state}_per_issue_active.ratio": cycles
        for state, cycles in (states or {}).items()
    }
    named |= {metric_with_id(i).names[0]: value for i, value in metrics.items()}
    instances = {}
    if opcodes:
        name = metric_with_id("inst_by_opcode").names[0]
        named[name] = sum(opcodes.values())
        instances[name] = Instances(tuple(opcodes.values()), tuple(opcodes))
    return in_memory(InMemoryLaunch(device, raw(named), instances))


def active(average: float, longest: float = 1.0, of: float = ELAPSED) -> dict[str, float]:
    """Metrics: the part of the cycles in which SMs were active, on average and one of them."""
    known = {"elapsed_cycles": of, "sm_active_cycles": average * of}
    return known | {"sm_active_cycles_max": longest * of}


def with_code(body: str, *runs: tuple[int, int], name: str = "k()") -> Launch:
    """Of 100,000 blocks of 256 threads. `runs`: warps and threads of each instruction, the ones
    whose predicate is off not counted; without them, one warp."""
    texts = assembled(body)
    counts = dict(zip(texts, runs or [(1, 32)] * len(texts), strict=True))
    columns = {
        "inst_executed": {at: warps for at, (warps, _) in counts.items()},
        "thread_inst_executed": {at: 32 * warps for at, (warps, _) in counts.items()},
        "thread_inst_executed_true": {at: threads for at, (_, threads) in counts.items()},
    }
    totals = {metric: sum(values.values()) for metric, values in columns.items()}
    totals |= {"launch__block_size": 256, "launch__grid_size": 100_000}
    instances = {metric: Instances(tuple(v.values()), tuple(v)) for metric, v in columns.items()}
    data = InMemoryLaunch(H200, raw(totals), instances, stored_disassembly=texts)
    return in_memory(data, name, blocks=100_000)


def encoded(
    metrics: Mapping[str, encode.Scalar], instances: Mapping = MappingProxyType({})
) -> Launch:
    """Of a report that was written and read."""
    data = encode.report([encode.Kernel("k", metrics, instances)])
    return Report(Path("x"), data, blocks_of(data, Path("x"))).launches()[0]


def model_of(launch: Launch) -> TimeModel:
    return TimeModel(LaunchView(launch))


def percent(most: float = 105.0) -> st.SearchStrategy[float]:
    """Counters of several passes give a little more than 100 % at times."""
    return st.floats(0, most, allow_subnormal=False)


@st.composite
def activity(draw: st.DrawFn) -> dict[str, float]:
    """When SMs were active: the average, the longest, both or nothing of it."""
    longest = draw(st.floats(0.01, 1.0)) * ELAPSED
    found = {
        "elapsed_cycles": float(ELAPSED),
        "sm_active_cycles_max": longest,
        "sm_active_cycles": longest * draw(st.floats(0.01, 1.0)),
    }
    lacking = draw(st.sampled_from([(), ("sm_active_cycles_max",), tuple(found)]))
    return {name: value for name, value in found.items() if name not in lacking}


OPCODES = st.dictionaries(
    st.sampled_from(["FFMA", "IMAD", "LDG", "STG", "BRA", "MOV", "BAR", "F2F", "HMMA"]),
    st.integers(0, 10**9),
)


@st.composite
def launches(
    draw: st.DrawFn,
    most: float = 105.0,
    opcodes: st.SearchStrategy[Mapping[str, int]] | None = None,
) -> Launch:
    """Any counters that the account and the time model read, each there or not."""
    units = draw(st.dictionaries(st.sampled_from(UNITS), percent(most)))
    cycles = st.floats(0.001, 50)
    states = draw(st.dictionaries(st.sampled_from((*STATES, *READY)), cycles))
    others = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "duration": st.floats(500, 1e9),
                "active_threads_per_warp": st.floats(0.5, 32),
                "inst_executed": st.integers(1, 10**12),
                "grid_size": st.integers(1, 10**6),
                "waves_per_sm": st.floats(0.01, 100),
                "sm_throughput_pct": percent(most),
            },
        )
    )
    return made_up(
        units, states, draw(opcodes) if opcodes is not None else None, **others, **draw(activity())
    )
