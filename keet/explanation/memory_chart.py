"""The memory chart of a launch: units, and the traffic between them, from measured metrics.

Bytes are those that Nsight Compute's chart has, or sectors times 32. A metric that the report lacks
makes a number unknown, never zero. The limit is the one that the headline names. Waste is what
findings call waste: sectors of uncoalesced accesses, bank conflicts, local memory, and bytes that
DRAM delivers again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from keet.analysis.hardware.ceilings import HOST_LINK, SECTOR, TIE, Ceiling, positive
from keet.analysis.hardware.stages import measured_stages
from keet.analysis.launch_view import LaunchView
from keet.analysis.memory_work import local_cause, shared_addresses
from keet.analysis.parameters import MAJORITY, NEGLIGIBLE, SAME_COUNT
from keet.analysis.remedy_conditions.global_memory import LOAD, STORE, addresses_of
from keet.analysis.roofline.memory import dram_ceiling, memory_ceilings
from keet.analysis.time_model import LEADS
from keet.documents.charts import MemoryChart, MemoryLink, MemoryNode, NodeId
from keet.evidence import Evidence, Sentence
from keet.explanation.explanation_types import LaunchExplanation
from keet.profile import Absent
from keet.units import Quantity


class _Traffic(NamedTuple):
    """A link, and the metrics of its numbers: the first must be in the report, unless the link is
    rare; the others are added where they are."""

    source: NodeId
    target: NodeId
    label: str
    instructions: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    wavefronts: tuple[str, ...] = ()
    bytes: tuple[str, ...] = ()
    sectors: tuple[str, ...] = ()
    """In place of bytes, if the report has none."""
    stages: tuple[str, ...] = ()
    """Parts of the hardware that the link is: the busiest counts."""
    is_rare: bool = False
    """Whether it is left out where nothing moved or nothing is known."""


_LINKS = {
    "global_loads": _Traffic(
        "l1", "sm", "global loads",
        ("global_load_inst",), ("global_load_requests",), sectors=("global_load_sectors",),
    ),
    "global_stores": _Traffic(
        "sm", "l1", "global stores",
        ("global_store_inst",), ("global_store_requests",), sectors=("global_store_sectors",),
    ),
    "global_atomics": _Traffic(
        "sm", "l1", "global atomics",
        ("global_atomic_inst", "global_cas_inst", "global_reduction_inst"),
        sectors=("global_atomic_sectors", "global_reduction_sectors"), is_rare=True,
    ),
    "local_loads": _Traffic(
        "l1", "sm", "local loads",
        ("local_load_inst",), ("local_load_requests",), sectors=("local_load_sectors",),
    ),
    "local_stores": _Traffic(
        "sm", "l1", "local stores",
        ("local_store_inst",), ("local_store_requests",), sectors=("local_store_sectors",),
    ),
    "textures": _Traffic(
        "l1", "sm", "texture, surface loads",
        ("texture_inst", "surface_load_inst"), ("texture_requests",),
        sectors=("texture_sectors", "surface_load_sectors"), is_rare=True,
    ),
    "surface_stores": _Traffic(
        "sm", "l1", "surface stores",
        ("surface_store_inst",), sectors=("surface_store_sectors",), is_rare=True,
    ),
    "shared_loads": _Traffic(
        "shared", "sm", "shared loads",
        ("shared_load_inst", "ldmatrix_inst"), wavefronts=("shared_load_wavefronts",),
    ),
    "shared_stores": _Traffic(
        "sm", "shared", "shared stores",
        ("shared_store_inst",), wavefronts=("shared_store_wavefronts",),
    ),
    "shared_atomics": _Traffic(
        "sm", "shared", "shared atomics",
        ("shared_atomic_inst",), wavefronts=("shared_atomic_wavefronts",), is_rare=True,
    ),
    "l2_reads": _Traffic(
        "l2", "l1", "reads", (), ("l2_l1_read_requests",), (), ("l1_read_bytes",),
        ("l2_l1_read_sectors",), ("l1_from_l2", "l2_to_sm"),
    ),
    "l2_writes": _Traffic(
        "l1", "l2", "writes", (), (), (), ("l1_write_bytes",),
        ("l2_l1_write_sectors", "l2_reduction_sectors", "l2_atomic_sectors", "l2_cas_sectors"),
        ("l1_to_l2", "sm_to_l2"),
    ),
    "copies_in": _Traffic(
        "l2", "shared", "copies to shared", ("ldgsts_inst", "tma_load_inst"),
        bytes=("tma_load_bytes", "ldgsts_bypass_bytes"), is_rare=True,
    ),
    "copies_out": _Traffic(
        "shared", "l2", "TMA stores", ("tma_store_inst",), bytes=("tma_store_bytes",), is_rare=True,
    ),
    "dram_reads": _Traffic("dram", "l2", "reads", bytes=("dram_bytes_read",)),
    "dram_writes": _Traffic("l2", "dram", "writes", bytes=("dram_bytes_written",)),
    "host_reads": _Traffic("host", "l2", "reads", sectors=("l2_sysmem_read_misses",)),
    "host_writes": _Traffic("l2", "host", "writes", sectors=("l2_sysmem_write_sectors",)),
    "peer_reads": _Traffic(
        "peer", "l2", "reads", sectors=("l2_peer_read_misses",), stages=("nvlink_received",)
    ),
    "peer_writes": _Traffic(
        "l2", "peer", "writes", sectors=("l2_peer_write_sectors",), stages=("nvlink_sent",)
    ),
}  # fmt: skip

_SHARES = {"dram_reads": "dram_read_pct", "dram_writes": "dram_write_pct"}
_OPERATIONS = {"loads": LOAD, "stores": STORE}
_LABELS: Mapping[NodeId, str] = {
    "sm": "SMs",
    "l1": "L1/TEX",
    "shared": "Shared memory",
    "l2": "L2",
    "dram": "DRAM",
    "host": "Host memory",
    "peer": "Peer GPUs",
}
_UNITS: Mapping[str, NodeId] = {
    "DRAM": "dram",
    "L2": "l2",
    "L1": "l1",
    HOST_LINK: "host",
    "NVLink": "peer",
}
"""Units of the headline; all others are inside of the SMs."""
_STAGE_LINKS = {
    "l1_from_l2": "l2_reads",
    "l2_to_sm": "l2_reads",
    "l1_to_l2": "l2_writes",
    "sm_to_l2": "l2_writes",
}
_LOCAL = {"spill": "spills", "array": "local arrays", "": "local memory"}


def memory_chart(each: LaunchExplanation) -> MemoryChart:
    view = each.view
    limits = tuple(
        ceiling
        for name in (each.verdict.limiter or "").split("+")
        if (ceiling := view.ceilings.get(name)) is not None
    )
    links = {link.id: link for link in _links(view)}
    for link_id, waste in _wastes(each, links):
        links[link_id] = replace(links[link_id], **waste)
    marked = _limiting(view, limits, links)
    nodes = tuple(_node(view, node, is_limit=node in marked) for node in _LABELS)
    shown = tuple(replace(link, is_limit=link.id in marked) for link in links.values())
    notes = tuple(_notes(view, shown))
    numbers = [
        *(number for link in shown for number in link.numbers),
        *(n for node in nodes for n in (node.hit_rate, node.load_hit_rate, node.busy) if n),
        *(number for text in (each.verdict.headline, *notes) for number in text.evidence.values()),
    ]
    return MemoryChart(
        id=each.launch.id,
        kernel=each.launch.kernel,
        duration=each.launch.get("duration"),
        nodes=nodes,
        links=shown,
        headline=each.verdict.headline,
        notes=notes,
        evidence=_with_sources(view, numbers),
    )


def _with_sources(view: LaunchView, numbers: Sequence[Evidence]) -> dict[str, Evidence]:
    known = {number.id: number for number in view.ledger}
    by_id: dict[str, Evidence] = {}
    waiting = [*numbers]
    while waiting:
        number = waiting.pop(0)
        if number.id and number.id not in by_id:
            by_id[number.id] = number
            waiting += [known[source] for source in number.derived_from or () if source in known]
    return by_id


# --- links


def _links(view: LaunchView) -> Iterator[MemoryLink]:
    links = {name: _link(view, name, traffic) for name, traffic in _LINKS.items()}
    for node, moved, share in _both_ways(view):
        reads, writes = links[f"{node}_reads"], links[f"{node}_writes"]
        if moved is None or writes.bytes is not None:
            continue
        if reads.bytes is None:
            links[f"{node}_reads"] = MemoryLink(
                id=f"{node}_traffic",
                source="l2",
                target=node,
                label=_BOTH_WAYS,
                is_both=True,
                bytes=moved,
                share=share,
            )
            del links[f"{node}_writes"]
        else:  # the report counts all, and reads
            amount = Quantity(max(0, moved.value - reads.bytes.value), "byte")
            name, label = f"chart.{node}_writes.bytes", "writes, bytes"
            rest = view.ledger.derived(name, amount, label, moved, reads.bytes)
            links[f"{node}_writes"] = replace(writes, bytes=rest)
    if view.value("ldgsts_inst"):  # L1 counts their requests as loads
        links["global_loads"] = replace(links["global_loads"], label="global loads, copies")
    for name, link in links.items():
        if not _LINKS[name].is_rare or (link.amount is not None and not link.is_idle):
            yield link


def _link(view: LaunchView, link_id: str, traffic: _Traffic) -> MemoryLink:
    def total(kind: str, metrics: tuple[str, ...]) -> Evidence | None:
        if not metrics or (view.get(metrics[0]) is None and not traffic.is_rare):
            return None
        if len(metrics) == 1:
            return view.get(metrics[0])
        return view.total(f"chart.{link_id}.{kind}", f"{traffic.label}, {kind}", *metrics)

    moved, sectors = total("bytes", traffic.bytes), total("sectors", traffic.sectors)
    if moved is None and sectors is not None:
        moved = _bytes(view, link_id, traffic.label, sectors)
    stages = measured_stages(view.ledger, traffic.stages)
    share = stages[0].busy if stages else None
    if link_id in _SHARES:
        share = view.get(_SHARES[link_id]) or _dram_share(view, link_id, moved)
    if traffic.source == "host" or traffic.target == "host":
        own = (stage.busy for stage in view.ceilings.stages(HOST_LINK) if stage.id == link_id)
        share = next(own, None)
    return MemoryLink(
        id=link_id,
        source=traffic.source,
        target=traffic.target,
        label=traffic.label,
        instructions=total("instructions", traffic.instructions),
        requests=total("requests", traffic.requests),
        wavefronts=total("wavefronts", traffic.wavefronts),
        bytes=moved,
        share=share,
    )


def _dram_share(view: LaunchView, link_id: str, moved: Evidence | None) -> Evidence | None:
    """From bytes and the peak at the clock of the launch: the same as the metric in all reports
    that have both."""
    dram, took = dram_ceiling(view.ledger, view.ceilings), positive(view.get("duration"))
    if isinstance(dram, Absent) or dram.peak is None or moved is None or took is None:
        return None
    if not dram.source.startswith("report"):
        return None  # the data sheet's clock need not be that of the launch
    share = Quantity(100 * moved.value / (took.value * 1e-9) / dram.peak.value, "%")
    label = f"DRAM {_LINKS[link_id].label}, share of peak"
    return view.ledger.derived(f"chart.{link_id}.share", share, label, moved, took, dram.peak)


def _bytes(view: LaunchView, link_id: str, label: str, sectors: Evidence) -> Evidence:
    amount = Quantity(sectors.value * SECTOR, "byte")
    return view.ledger.derived(f"chart.{link_id}.bytes", amount, f"{label}, bytes", sectors)


_BOTH_WAYS = "reads, writes"


def _both_ways(view: LaunchView) -> Iterator[tuple[NodeId, Evidence | None, Evidence | None]]:
    """Bytes and share of the peak in both directions, of reports that do not distinguish reads and
    writes; for DRAM, from the rate that small sets have."""
    sectors, stages = view.get("l2_sysmem_misses"), view.ceilings.stages(HOST_LINK)
    host = _bytes(view, "host_traffic", _BOTH_WAYS, sectors) if sectors else None
    yield "host", host, stages[0].busy if stages else None
    sectors = view.get("l2_peer_misses")
    yield "peer", sectors and _bytes(view, "peer_traffic", _BOTH_WAYS, sectors), None
    rate, duration = view.get("dram_bytes_per_second"), view.get("duration")
    moved = None
    if rate is not None and duration is not None:
        amount = Quantity(rate.value * duration.value * 1e-9, "byte")
        moved = view.ledger.derived("chart.dram_traffic.bytes", amount, _BOTH_WAYS, rate, duration)
    yield "dram", moved, view.ceilings.reached("DRAM")


# --- waste


def _wastes(
    each: LaunchExplanation, links: Mapping[str, MemoryLink]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    view = each.view
    kinds = view.by_address("memory_access_type")
    for way, operation in _OPERATIONS.items():
        # By the addresses of single instructions: the counter of the hardware takes in waits for
        # other traffic.
        own = [address for address in shared_addresses(view) if kinds[address] == operation]
        name, label = f"chart.shared_{way}.conflicts", f"shared {way}: bank conflicts"
        conflicts = view.sum_over(name, "src_shared_wavefronts_excess", own, label)
        conflicts = conflicts or view.get(f"bank_conflicts_{way[:-1]}")
        link = links[f"shared_{way}"]
        if conflicts is not None and link.wavefronts is not None:
            yield from _waste(view, link, link.wavefronts, conflicts, "bank conflicts")
    for way, operation in _OPERATIONS.items():
        link_id = f"global_{way}"
        if wasted := _uncoalesced(view, link_id, operation):
            if links[link_id].bytes is None:  # the same sectors, by code patching
                yield link_id, {"bytes": wasted[0]}
            yield from _waste(view, links[link_id], *wasted, _UNCOALESCED)
    local = _LOCAL[local_cause(view)]
    moved = {
        space: sum(
            float(number.value)
            for way in _OPERATIONS
            if (number := links[f"{space}_{way}"].bytes) is not None
        )
        for space in ("local", "global")
    }
    if moved["local"] > NEGLIGIBLE * (moved["local"] + moved["global"]):
        for link in (links["local_loads"], links["local_stores"]):
            if link.bytes:
                yield from _waste(view, link, link.bytes, link.bytes, local)
        yield from _local_reads(view, links["l2_reads"], local)
    yield from _through_writes(view, links, local)
    yield from _again(each, links)


_UNCOALESCED = "uncoalesced"


def _waste(
    view: LaunchView, link: MemoryLink, whole: Evidence, waste: Evidence, reason: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    share = view.percent(f"chart.{link.id}.waste", f"{link.label}: {reason}", waste, whole)
    if share is not None and share.value >= 100 * NEGLIGIBLE:
        yield link.id, {"waste": waste, "waste_share": share, "waste_reason": reason}


def _uncoalesced(
    view: LaunchView, link_id: str, operation: int
) -> tuple[Evidence, Evidence] | None:
    """Bytes of the sectors that the accesses touch, and those beyond the fewest that they could
    touch. Reports without numbers of single instructions do not tell loads from stores."""
    own, label = addresses_of(view, operation), link_id.replace("_", " ")
    touched, ideal = (
        view.sum_over(f"chart.{link_id}.{name}", f"src_l2_sectors_global{suffix}", own, text)
        for name, suffix, text in (
            ("touched", "", f"sectors that {label} touch"),
            ("ideal", "_ideal", f"fewest sectors that {label} could touch"),
        )
    )
    if touched is None or ideal is None:
        return None
    excess = Quantity(max(0, touched.value - ideal.value) * SECTOR, "byte")
    label = f"{label}, bytes of sectors that are not needed"
    return (
        _bytes(view, f"{link_id}.touched", label, touched),
        view.ledger.derived(f"chart.{link_id}.excess", excess, label, touched, ideal),
    )


def _local_reads(
    view: LaunchView, link: MemoryLink, reason: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What L1 reads from L2 beyond the misses of global loads, where nothing else reads."""
    missed, whole = view.get("global_load_sectors_missed"), link.bytes
    others = view.executed("LDGSTS", "UTMA", "UBLK", "TEX", "TLD", "TXD", "SULD", "ATOM")
    if missed is None or whole is None or others or not view.opcodes:
        return
    amount = Quantity(max(0, whole.value - SECTOR * missed.value), "byte")
    label = "bytes of local memory that L1 reads from L2"
    local = view.ledger.derived("chart.local_reads", amount, label, whole, missed)
    yield from _waste(view, link, whole, local, reason)


def _through_writes(
    view: LaunchView, links: Mapping[str, MemoryLink], local: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """L1 writes through: sectors of stores that are not needed reach L2, too. What is left are the
    sectors that global stores need."""
    link, stores = links["l2_writes"], links["global_stores"].bytes
    whole, own = link.bytes, links["local_stores"].bytes
    if stores is None or whole is None:
        return
    spilled = own.value if own else 0
    if abs(stores.value + spilled - whole.value) > SAME_COUNT * whole.value:
        return  # atomics, or stores that L1 joins
    ideal = view.ledger.entry_named("chart.global_stores.ideal")
    needed = SECTOR * ideal.value if ideal else stores.value
    amount = Quantity(max(0, whole.value - needed), "byte")
    label = "bytes written to L2 that are not needed"
    waste = view.ledger.derived("chart.l2_writes.excess", amount, label, whole, ideal or stores)
    is_uncoalesced = needed < (1 - NEGLIGIBLE) * stores.value
    reasons = [_UNCOALESCED] * is_uncoalesced + [local] * bool(spilled)
    yield from _waste(view, link, whole, waste, ", ".join(reasons)) if reasons else ()


def _again(
    each: LaunchExplanation, links: Mapping[str, MemoryLink]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Bytes that DRAM delivers again, if a finding says so."""
    link = links.get("dram_reads")
    told = (
        number
        for finding in (*each.findings, *each.lesser)
        if finding.id == "redundant_traffic"
        for number in finding.evidence
    )
    once = next((number for number in told if number.slug == "distinct_bytes"), None)
    if link is None or link.bytes is None or once is None:
        return
    amount = Quantity(max(0, link.bytes.value - once.value), "byte")
    label = "bytes that DRAM delivers again (estimated)"
    again = each.view.ledger.derived("chart.dram_again", amount, label, link.bytes, once)
    yield from _waste(each.view, link, link.bytes, again, "read again")


# --- units and the limit


def _node(view: LaunchView, node: NodeId, *, is_limit: bool) -> MemoryNode:
    busiest = _busiest(view, node)
    hits = {"l1": "l1_hit_rate_pct", "l2": "l2_hit_rate_pct"}
    return MemoryNode(
        id=node,
        label=_LABELS[node],
        hit_rate=view.get(hits[node]) if node in hits else None,
        load_hit_rate=_load_hits(view) if node == "l1" else None,
        busy=busiest[1] if busiest else None,
        busiest=busiest[0] if busiest else "",
        is_limit=is_limit,
    )


def _busiest(view: LaunchView, node: NodeId) -> tuple[str, Evidence] | None:
    if node == "shared":
        share = _shared_busy(view)
        return ("wavefronts", share) if share is not None else None
    for ceiling in view.ceilings.ranked:
        if _UNITS.get(ceiling.name, "sm") == node:
            name = ceiling.stage.label if ceiling.stage and node != "sm" else ceiling.name
            return name, ceiling.reached
    return None


def _shared_busy(view: LaunchView) -> Evidence | None:
    """Of the data stage of L1, which can do a wavefront per cycle."""
    rooflines, _ = memory_ceilings(view.ledger, view.ceilings)
    counted = (roofline.reached for roofline in rooflines if roofline.id == "shared")
    return view.get("shared_wavefronts_pct") or next(counted, None)


def _load_hits(view: LaunchView) -> Evidence | None:
    hit_rate = view.get("global_load_hit_rate_pct")
    every, missed = view.get("global_load_sectors"), view.get("global_load_sectors_missed")
    if hit_rate is not None or every is None or missed is None or not every.value:
        return hit_rate if every is None or every.value else None
    share = Quantity(100 * max(0.0, 1 - missed.value / every.value), "%")
    return view.ledger.derived("chart.load_hits", share, "hit rate of global loads", every, missed)


_COLLECT = (
    "To collect what is missing: ncu --section MemoryWorkloadAnalysis_Chart --section "
    "MemoryWorkloadAnalysis_Tables"
)


def _limiting(
    view: LaunchView, limits: Sequence[Ceiling], links: Mapping[str, MemoryLink]
) -> set[str]:
    """Ids of the nodes and links that limit the launch."""
    limiting, shared = set(), _shared_busy(view)
    for ceiling in limits:
        node = _UNITS.get(ceiling.name, "sm")
        stage = ceiling.stage
        port = _STAGE_LINKS.get(stage.id, "") if stage and not stage.inferred else ""
        if ceiling.share >= LEADS and port in links:
            limiting.add(port)
        elif node == "l1" and shared and shared.value > MAJORITY * ceiling.reached.value:
            limiting.add("shared")
        else:
            limiting.add(node)
        own = [link for link in links.values() if node in (link.source, link.target)]
        if ceiling.kind == "link":  # each direction has its own peak
            least = ceiling.reached.value - TIE
            limiting |= {link.id for link in own if link.share and link.share.value >= least}
        if node == "dram":  # one bus for both directions
            limiting.add(max(own, key=lambda link: link.bytes.value if link.bytes else 0).id)
    return limiting


def _notes(view: LaunchView, links: Sequence[MemoryLink]) -> Iterator[Sentence]:
    if any(link.amount is None for link in links):
        yield Sentence(_COLLECT)
    remote, through = view.get("dsmem_read_bytes"), view.get("l1_read_bytes")
    if remote is not None and remote.value and through is not None:
        text = "{bytes} of the reads of L1 come from the shared memory of other SMs, not from L2."
        yield Sentence(text, bytes=remote)
    if any(link.id == "copies_in" and link.bytes for link in links) and through is not None:
        yield Sentence("The copies to shared memory are part of the reads of L1.")
    fabric = view.get("l2_fabric_sectors")
    if fabric is not None and fabric.value:
        moved, share = _bytes(view, "l2_fabric", "L2 fabric", fabric), view.get("l2_fabric_pct")
        peak = Sentence(" ({share:.0f} of its peak)", share=share) if share else ""
        across = "{bytes} pass between the two partitions of L2{share}."
        yield Sentence(across, bytes=moved, share=peak)
    packed = view.get("l2_compression_input_sectors")
    ratio = view.get("l2_compression_ratio")
    if packed is not None and packed.value and ratio is not None:
        yield Sentence("L2 compresses by a factor of {ratio:.1f}.", ratio=ratio)
