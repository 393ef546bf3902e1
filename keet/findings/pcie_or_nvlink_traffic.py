"""Traffic over PCIe or NVLink."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from keet.analysis.candidate import MEMORY_WAITS, Candidate, kept_waits
from keet.analysis.hardware.ceilings import HOST_LINK, from_host, host_traffic
from keet.analysis.hotspots.source_calls import beside, launch_places
from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import SIMILAR, Parameter
from keet.analysis.remedy_conditions import global_memory, origin
from keet.analysis.remedy_conditions.waits import awaited_places
from keet.analysis.time_model import ATTAINABLE_LINK, HOT_LINE, MOST_REMOVED, Effect, TimeModel
from keet.documents.finding import Place
from keet.evidence import Sentence
from keet.findings import Absence, Edit, FindingSpec, absence, otherwise, when

if TYPE_CHECKING:
    from keet.analysis.machine_code.analyses.reuse import PointerReuse

ATTAINABLE_COPY = Parameter(
    0.82, "share of the host link's peak that a copy in bulk reaches", "fit"
)
USED_AGAIN = Parameter(
    2, "times that data in host memory is used at least, by this launch or others", "judgement"
)

FINDING = FindingSpec(
    id="pcie_or_nvlink_traffic",
    family="memory",
    label="traffic over PCIe or NVLink",
    meaning="The kernel works on memory of the host, over a link that is far slower than the "
    "GPU's own DRAM.",
    how="The bytes per second between the GPU and the host's memory are compared with what "
    "accesses of single sectors reach of the link's peak. After the fix, each byte crosses the "
    "link once, in a copy. Traffic with the memory of another GPU is not counted.",
    parameters=(ATTAINABLE_LINK, ATTAINABLE_COPY, USED_AGAIN, MOST_REMOVED),
    claims=("bytes",),
    rests_on=("host",),
    memory="global",
    unlike={
        "latency_bound": "Waiting for the link is not covered by more loads in flight: they queue "
        "for the same link.",
        "at_dram_roofline": "Only traffic with the GPU's own DRAM counts for its roofline.",
    },
    remedies={
        when(origin.library_communication, name="communication"): "This kernel moves data between "
        "GPUs by design: exchange less (a narrower type, fewer or larger messages), or overlap it "
        "with computation in another stream.",
        when(global_memory.reads_peer, name="peer"): "Copy what the kernel needs from the other "
        "GPU before it runs (cudaMemcpyPeerAsync, or NCCL), and work on the copy{here}.",
        when(
            global_memory.writes_host, name="writes", unless=(global_memory.reads_host,)
        ): "Write the results to a buffer on the GPU{here}, and copy them to the host in bulk "
        "afterwards (cudaMemcpyAsync into pinned memory, overlapped with the next kernel).",
        when(global_memory.reads_host, name="reads"): "Copy the data to the GPU in bulk before "
        "the kernel (cudaMemcpyAsync from pinned memory, or cudaMemPrefetchAsync for managed "
        "memory), and work on the copy{here}.",
        otherwise: "Copy the data to the GPU in bulk before the kernel (or prefetch managed "
        "memory), and work on the copy{here}.",
    },
    edit=Edit(
        "Copy data that the kernel reads from host memory into device memory beforehand", usual=25
    ),
)


def candidates(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    load, rate = model.loads.get(HOST_LINK, 0.0), view.ceilings.rate(HOST_LINK)
    if not load or rate is None:
        return
    units, hot = {HOST_LINK: min(1.0, _link_load_after_fix(view) / load)}, model.hot_line
    if hot is not None and hot.is_in_host and not hot.is_atomic:
        # L2 would serve such a line at once if it were in the GPU's memory. Atomics on it are a
        # finding of their own.
        units[HOT_LINE], load = 1 - MOST_REMOVED, max(load, hot.load)
    part, fills = from_host(view.ledger), ""
    if part is not None:
        fills = Sentence(", and {part:.0f} of what L2 fetches comes from there", part=part)
    text = "The kernel itself moves {rate} between the GPU and the host's memory{fills}."
    yield Candidate(
        Sentence(text, rate=rate, fills=fills),
        Effect(units, kept_waits(model, MEMORY_WAITS, MOST_REMOVED * load)),
        tuple(filter(None, (rate, view.ceilings.reached(HOST_LINK), part))),
        lambda: _places(view),
    )


def _places(view: LaunchView) -> tuple[Place, ...]:
    """The loads of the array in host memory, if the bytes show which one it is; else the loads that
    warps wait for: those from the host take longest. Then the launch, which gets the pointer."""
    array, sectors = _host_array(view), view.table.column("src_l2_sectors_global") or {}
    places: tuple[Place, ...] = ()
    if array is not None and view.code is not None:
        addresses = view.code.addresses([access.position for access in array[0].accesses])
        places = view.places_by(
            "sectors of that array", {at: sectors.get(at, 0) for at in addresses}
        )
    places = places or awaited_places(view, "long_scoreboard") or view.sampled_places()
    return beside(places, *launch_places(view)[:1])


def _link_load_after_fix(view: LaunchView) -> float:
    """One copy of the data in bulk. How often the kernel reads each byte, its addresses show. If
    data chooses them, it is the (geometric) middle of what it may be."""
    bulk = (view.ceilings.share(HOST_LINK) or 0.0) / ATTAINABLE_COPY
    array = _host_array(view)
    if array is None:
        return bulk * math.sqrt(1 - MOST_REMOVED)
    return bulk / max(float(USED_AGAIN), _read_from_host(view) / array[1])


def _host_array(view: LaunchView) -> tuple[PointerReuse, int] | None:
    """The array in host memory, and its distinct bytes: its loads move as many bytes as cross the
    link."""
    moved = _read_from_host(view)
    for row in view.code.reuse if view.code is not None else ():
        distinct, from_l2 = row.sector_bytes_at_most, row.l2_bytes
        if distinct and from_l2 and moved * SIMILAR >= from_l2 >= moved / SIMILAR:
            return row, distinct
    return None


def _read_from_host(view: LaunchView) -> float:
    """Bytes; 0 where they are not known."""
    read, duration = host_traffic(view.ledger).read, view.value("duration")
    return float(read.value) * duration * 1e-9 if read is not None and duration else 0.0


def absent(view: LaunchView, _: TimeModel) -> Absence | None:
    if view.ceilings.share(HOST_LINK) != 0.0 or view.ceilings.share("NVLink"):
        return None
    return absence("The kernel does not access memory of the host.")
