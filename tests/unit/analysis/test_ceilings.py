"""How near units are to their peak and in which stage, by PM samples too, and of the tensor peak."""

import math
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.analysis.hardware.ceilings import HOST_LINK, Ceilings, verb_of
from keet.analysis.launch_view import LaunchView
from keet.analysis.ledger import LaunchLedger
from keet.analysis.roofline.launch_roofline import find_roofline, stage_name
from keet.analysis.roofline.tensor import fp32_accumulated
from keet.analysis.time_model import TimeModel
from keet.profile import Instances, Launch, RawMetric
from keet.report import read_profile
from keet.report.snapshot import InMemoryLaunch
from tests import encode
from tests.conftest import CORPUS, REPORTS, TESTS, needs_corpus
from tests.rows import each_row
from tests.unit.analysis.made_up_launch import H200, encoded, in_memory

SAMPLES = TESTS.parent / "kernels_samples"
ELAPSED = "avg.pct_of_peak_sustained_elapsed"
L2 = f"lts__throughput.{ELAPSED}"
TAGS = f"lts__t_tag_requests.{ELAPSED}"
SECTORS = f"lts__t_sectors.{ELAPSED}"
L1 = f"l1tex__throughput.{ELAPSED}"
L1_ACTIVE = "l1tex__throughput.avg.pct_of_peak_sustained_active"
DATA_STAGE = f"l1tex__data_pipe_lsu_wavefronts.{ELAPSED}"
CYCLES = "gpc__cycles_elapsed.max"
LSU = f"sm__inst_executed_pipe_lsu.{ELAPSED}"
CAPABILITY = "device__attribute_compute_capability_"
ON_HOPPER = {f"{CAPABILITY}major": 9, f"{CAPABILITY}minor": 0}


def ceilings_with(metrics: Mapping[str, float]) -> Ceilings:
    return Ceilings(LaunchLedger(encoded(metrics)))


def ceilings_of(path: Path, launch: int = 0) -> Ceilings:
    return Ceilings(LaunchLedger(read_profile(path).launches[launch]))


@pytest.fixture(scope="module")
def ceilings() -> Ceilings:
    return ceilings_of(REPORTS / "tour_full.ncu-repz")


def test_units_have_names_shares_ties_and_stages(ceilings) -> None:
    assert ceilings.ranked[0].name == "L2"
    assert (ceilings.share("L2") or 0) > 0.6
    assert 0 < (ceilings.share("DRAM") or 0) < 0.1
    assert "tensor" in ceilings
    nearest = ceilings.nearest
    assert nearest[0] == ceilings.ranked[0]
    assert all(nearest[0].share - unit.share <= 0.05 for unit in nearest)
    # Within five points of 3 % is everything that idles.
    found = ceilings_with({L2: 3.0, f"sm__issue_active.{ELAPSED}": 0.2, LSU: 0.1})
    assert [unit.name for unit in found.nearest] == ["L2"]
    stage, stages = ceilings.stage("L2"), ceilings.stages("L2")
    assert (stage.id, stage.label, stage.inferred) == ("sm_to_l2", "Crossbar to L2", False)
    assert stages[0] == stage._replace(busy=stages[0].busy)
    assert [each.share for each in stages] == sorted((s.share for s in stages), reverse=True)
    assert {"l2_tags", "l2_sectors", "l2_data_banks", "l2_atomics"} <= {s.id for s in stages}
    # Loads of shared memory with a stride of 32 words: few instructions, many wavefronts.
    found = ceilings_of(REPORTS / "zoo.ncu-repz", 6)
    stage = found.stage("L1")
    assert stage.id == "l1_data_stage"
    assert stage.share > 0.9
    assert (found.share("LSU") or 0) < 0.2
    assert {"shared_memory", "l1_writeback", "lsu"} <= {each.id for each in found.stages("L1")}
    launch = read_profile(REPORTS / "tour_full.ncu-repz").launches[0]
    busiest = find_roofline(launch).ceiling("l2").busiest
    unit = LaunchView(launch).ceilings.get("L2")
    assert unit.stage
    assert (busiest.part, busiest.evidence) == (stage_name(unit.stage), unit.reached)
    assert unit.busier_stage is None  # its share is that of the stage


def test_what_was_not_measured_is_unknown() -> None:
    known = ceilings_with({SECTORS: 0.0})
    assert (known.share("L2"), "L2" in known) == (0.0, True)
    for name in ("DRAM", "NVLink", HOST_LINK, "no such unit"):
        assert (known.share(name), known.reached(name), known.stages(name)) == (None, None, ())
        assert name not in known
    launch = sampled({TENSOR: (60.0,) * 11, "dramc__throughput": (9.3,) * 11})
    model = TimeModel(LaunchView(launch))
    assert model.loads["DRAM"] == pytest.approx(0.1)
    assert model.view.ceilings.share("DRAM") is None


def test_shares_of_active_cycles_and_above_the_peak(profile_of) -> None:
    for launch in profile_of("tour_full.ncu-repz").launches:
        assert sum(LaunchView(launch).stalls.values()) == pytest.approx(1)
    assert "L1" not in ceilings_with({L1_ACTIVE: 50.0})
    cycles = {"sm__cycles_active.avg": 600.0, CYCLES: 1000.0}
    found = ceilings_with({L1_ACTIVE: 50.0, **cycles}).get("L1")
    assert found.reached.value == pytest.approx(30)
    assert "over elapsed cycles" in found.reached.label
    measured = ceilings_with({L1_ACTIVE: 50.0, L1: 31.0, **cycles}).get("L1")
    assert measured.reached.metric == L1
    stage = ceilings_with({L1_ACTIVE: 50.0, DATA_STAGE: 29.5, **cycles}).get("L1")
    assert stage.reached.metric == DATA_STAGE  # the same thing, measured directly
    found = ceilings_with({TAGS: 103.0}).get("L2")
    assert found.share == pytest.approx(1.03)


def test_an_unexplained_l2_share_is_the_fabric_between_partitions(wording) -> None:
    """A GPU with one partition has no such stage."""
    shares = {L2: 62.0, TAGS: 23.0, SECTORS: 28.0}
    stage = ceilings_with({**shares, **ON_HOPPER}).stage("L2")
    assert (stage.id, stage.inferred, stage.busy.metric) == ("l2_fabric", True, L2)
    single = {f"{CAPABILITY}major": 8, f"{CAPABILITY}minor": 6}
    unknown = ceilings_with({**shares, **single}).stage("L2")
    assert unknown.inferred
    wording(unknown.label)


@needs_corpus
def test_a_stage_that_ncu_counts_twice_on_a_t4() -> None:
    (path,) = CORPUS.glob("armleth__*")
    stage = ceilings_of(path).stage("L1")
    assert (stage.id, stage.inferred) == ("l1_to_l2", True)
    assert stage.share == pytest.approx(0.90, abs=0.01)


shares = st.floats(1, 100)


@given(whole=st.none() | shares, tags=shares, sectors=shares)
def test_a_share_is_that_of_the_busiest_stage(whole, tags, sectors) -> None:
    metrics = {TAGS: tags, SECTORS: sectors, **({L2: whole} if whole else {})}
    found = ceilings_with(metrics)
    assert found.share("L2") == pytest.approx(max(tags, sectors, whole or 0) / 100)
    assert [stage.share for stage in found.stages("L2")] == sorted(
        [tags / 100, sectors / 100], reverse=True
    )


@given(active=shares, stage=shares, change=st.floats(-0.02, 0.02))
def test_converted_and_measured_shares_are_continuous(active, stage, change) -> None:
    cycles = {"sm__cycles_active.avg": 800.0, CYCLES: 1000.0}
    before, after = (
        ceilings_with({L1_ACTIVE: share, DATA_STAGE: stage, **cycles}).share("L1")
        for share in (active, active * (1 + change))
    )
    assert after == pytest.approx(before, rel=0.08, abs=0.006)


def test_the_link_to_the_host() -> None:
    found = ceilings_of(SAMPLES / "rate_table" / "slow.ncu-repz")
    link, rate = found.get(HOST_LINK), found.rate(HOST_LINK)
    assert rate.value == pytest.approx(19.6e9, rel=0.01)
    assert link.share == pytest.approx(rate.value / 63e9, rel=0.01)
    assert "PCIe 5.0 x16, assumed" in link.source
    assert found.ranked[0] == link
    found = ceilings_of(SAMPLES / "rate_table" / "fast.ncu-repz")
    assert found.share(HOST_LINK) == 0.0
    assert HOST_LINK in found
    assert HOST_LINK not in [unit.name for unit in found.ranked]
    found = ceilings_with({READ: 1e8, WRITE: 5e8, **SECOND, **ON_HOPPER})
    assert found.share(HOST_LINK) == pytest.approx(5e8 * 32 / 63.015e9)
    assert [stage.id for stage in found.stages(HOST_LINK)] == ["host_writes", "host_reads"]
    found = ceilings_with({READ: 1e8, **SECOND})
    rate = found.rate(HOST_LINK)
    assert rate.value == pytest.approx(3.2e9)
    assert found.share(HOST_LINK) is None
    assert found.ranked == ()
    found = ceilings_with({READ: 1e8, **SECOND, **ON_HOPPER, "device__attribute_integrated": 1})
    assert (found.share(HOST_LINK), found.rate(HOST_LINK)) == (None, None)
    found = ceilings_with({READ: 1e9, **SECOND, **ON_HOPPER, "c2clink__present": 1.0})
    found = found.get(HOST_LINK)
    assert found.share == pytest.approx(32e9 / 450e9)
    assert "NVLink-C2C" in found.source


READ = "lts__t_sectors_srcunit_tex_aperture_sysmem_op_read_lookup_miss.sum"
WRITE = "lts__t_sectors_srcunit_tex_aperture_sysmem_op_write.sum"
SECOND = {"gpu__time_duration.sum": 1e9}


SHARE = "pmsampling:{}.avg.pct_of_peak_sustained_elapsed"


def sampled(samples: dict[str, tuple[float, ...]], active: float = 9e5) -> Launch:
    """A made-up launch of 1 ms: one sample per 100 us, the first at the start of the window."""
    instances = {
        SHARE.format(name): Instances(values, tuple(range(0, 100_000 * len(values), 100_000)))
        for name, values in samples.items()
    }
    metrics = {"gpu__time_duration.sum": RawMetric(1e6, "ns"), CYCLES: RawMetric(1e6, "cycle")}
    metrics |= {"pmsampling:sm__cycles_active.avg": RawMetric(active, "cycle")}
    metrics |= {name: RawMetric(None) for name in instances}
    return in_memory(InMemoryLaunch(H200, metrics, instances))


TENSOR = "sm__pipe_tensor_cycles_active_realtime"
OUTSIDE = (0.0,) * 10


def test_samples_outside_of_the_launch_and_a_window_that_ends_early() -> None:
    for samples in ((*OUTSIDE, *(60.0,) * 10, *OUTSIDE), (60.0,) * 6):
        units = LaunchView(sampled({TENSOR: samples})).ceilings
        assert units.share("tensor") == pytest.approx(0.6)
        assert not units.are_counted
    for active in (0.0, 3e6, math.nan):  # samples of other work
        assert not LaunchView(sampled({TENSOR: (60.0,) * 11}, active)).ceilings.ranked


OPCODES = "sass__inst_executed_per_opcode_with_modifier_all"
PIPE = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
PATH = "sm__ops_path_tensor_src_{}_sparsity_{}.avg.pct_of_peak_sustained_elapsed"
GEFORCE = "NVIDIA GeForce RTX 4090"
FP32 = {"HMMA.16816.F32": 1000.0}
FP16 = {"HMMA.16816.F16": 1000.0}
TF32 = {"HMMA.1688.F32.TF32": 1000.0}


def made_up(
    opcodes: Mapping[str, float] | None,
    paths: Mapping[str, float] | None = None,
    *,
    name: str = GEFORCE,
    capability: tuple[int, int] = (8, 9),
) -> Launch:
    """A launch whose tensor pipe was busy for 43 % of the time."""
    metrics: dict[str, encode.Scalar] = {"gpu__time_duration.sum": 1000.0, PIPE: 43.0}
    metrics |= {f"{CAPABILITY}{part}": of for part, of in zip(("major", "minor"), capability)}
    metrics |= {"sm__cycles_elapsed.avg.per_second": 1e9, "device__attribute_display_name": name}
    instances = {OPCODES: list(opcodes.items())} if opcodes else {}
    return encoded(metrics | (paths or {}), instances)


def shares_of_tensor_load(launch: Launch) -> tuple[float | None, dict[str, float]]:
    """Of the unit, and of the ceilings of the roofline, in percent."""
    unit = Ceilings(LaunchLedger(launch)).reached("tensor")
    ceilings = find_roofline(launch).ceilings
    found = {c.id: float(c.reached.value) for c in ceilings if c.id.startswith("tensor")}
    return float(unit.value) if unit else None, found


PATHS = (("fp16_dst_fp32", "off"), ("fp16_dst_fp16", "off"), ("fp16_dst_fp32", "on"))
RAN = dict(zip((PATH.format(*each) for each in PATHS), (86.0, 0.0, 0.0)))


@each_row("launch, type_id, share", [
    (made_up(FP32, RAN, name="some GPU"), "fp16", 86.0),  # the path that ran has the share
    # A path below the busy share changes nothing, as of a peak with sparsity.
    (made_up(FP32, {PATH.format("fp16_dst_fp32", "on"): 21.5}), "fp16", 43.0),
    # GeForce accumulates in FP32 at half rate.
    (made_up(FP32), "fp16", 86.0),
    (made_up(FP16), "fp16", 43.0),
    (made_up(TF32), "tf32", 86.0),
    (made_up({**FP32, **FP16}), "fp16", 64.5),
    # Other GPUs do not.
    (made_up(FP32, name="NVIDIA A40", capability=(8, 6)), "fp16", 43.0),
    (made_up(FP32, name=GEFORCE, capability=(12, 0)), "fp16", 43.0),
    (made_up(FP32, name="NVIDIA L4", capability=(8, 9)), "fp16", 43.0),
    (made_up(FP32, name="NVIDIA A100-SXM4-40GB", capability=(8, 0)), "fp16", 43.0),
])  # fmt: skip
def test_the_share_of_the_tensor_peak(launch, type_id: str, share: float) -> None:
    unit, roofline = shares_of_tensor_load(launch)
    assert (unit, roofline) == (pytest.approx(share), {f"tensor_{type_id}": pytest.approx(share)})


def test_without_known_accumulators_there_is_no_share_of_peak() -> None:
    """The pipe's busy share stays, as the least that it can be. Above half of its peak, a pipe
    counts the real time."""
    assert fp32_accumulated(made_up(None)) is None
    unit, roofline = shares_of_tensor_load(made_up({**FP32, "IMMA.16832.S8.S8": 1000.0}))
    assert (unit, roofline) == (pytest.approx(43), {})
    assert shares_of_tensor_load(made_up(FP32, {PIPE: 91.0}))[0] == pytest.approx(91)
    assert (verb_of("tensor"), verb_of("DRAM")) == ("are", "is")
