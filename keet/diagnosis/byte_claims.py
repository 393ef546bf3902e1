"""Evaluates a model's claim that fewer bytes are needed.

The claim says how many bytes a memory level has to move; the report says how many it moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from keet.analysis.amounts.arrays import arrays
from keet.analysis.candidate import MEMORY_WAITS, kept_waits, part_of
from keet.analysis.decisions.replays import COALESCED_WAITS
from keet.analysis.hardware.ceilings import HOST_LINK
from keet.analysis.launch_view import LaunchView
from keet.analysis.memory_work import global_part, less_shared
from keet.analysis.parameters import Parameter
from keet.analysis.several_launches.traffic import SECTOR, stored_bytes
from keet.analysis.time_model import HOT_LINE, INDIRECT, MOST_REMOVED, Effect, TimeModel
from keet.diagnosis.claim import (
    ClaimEffect,
    Refused,
    WorkClaim,
    as_claimed,
    in_unit,
    removable,
    stated_amount,
    stated_share,
    warps_launched,
)
from keet.evidence import Evidence, Sentence
from keet.findings import FindingSpec
from keet.formatting import capitalized
from keet.units import Quantity

WAVEFRONT = 128
"""Most bytes that shared memory delivers per wavefront."""


class Level(NamedTuple):
    """A level of memory, and the counters of what it moved."""

    unit: str
    label: str
    read: str = ""
    written: str = ""
    """Catalog ids."""
    size: int = 1
    """Bytes per counted item."""


LEVELS: Mapping[str, Level] = {
    "dram": Level("DRAM", "DRAM", "dram_bytes_read", "dram_bytes_written"),
    "l2": Level("L2", "L2", "l2_l1_read_sectors", "l2_l1_write_sectors", SECTOR),
    "global": Level("L1", "L1", "global_load_sectors", "global_store_sectors", SECTOR),
    "shared": Level(
        "L1", "shared memory", "shared_load_wavefronts", "shared_store_wavefronts", WAVEFRONT
    ),
    "local": Level("L1", "local memory", "local_load_sectors", "local_store_sectors", SECTOR),
    HOST_LINK: Level(HOST_LINK, "the link to the host"),
    HOT_LINE.lower(): Level(HOT_LINE, "the busiest slice of L2", size=SECTOR),
}
_CHAIN = ("global", "l2", "dram")
"""Levels of global memory, from the threads outwards."""
_ALIASES = {"l1": "global", "host": HOST_LINK, "pcie": HOST_LINK, "hot line": HOT_LINE.lower()}
_DIRECTIONS = dict.fromkeys(("read", "reads", "load", "loads"), "read") | dict.fromkeys(
    ("written", "write", "writes", "store", "stores"), "written"
)


class _Traffic(NamedTuple):
    """What one level moved."""

    name: str
    level: Level
    moved: Evidence
    """Bytes, in the direction of the claim."""
    whole: float
    """Bytes in both directions."""


def _traffic(model: TimeModel, name: str, direction: str = "") -> _Traffic | None:
    """`direction`: `read` or `written`; empty for both. None if the report does not say."""
    view, level = model.view, LEVELS[name]
    counted: dict[str, Evidence | None]
    if name == HOST_LINK:  # entered by the ceilings if the link was used
        used = ("read", "written") if view.ceilings.get(HOST_LINK) else ()
        entries = {key: view.ledger.entry_named(f"host_link.{key}.bytes") for key in used}
        counted = {key: entry for key, entry in entries.items() if entry is not None}
    elif level.unit == HOT_LINE:
        counted = {"read": model.hot_line.most if model.hot_line else None}
    else:
        counted = {"read": view.get(level.read), "written": view.get(level.written)}
    for key, count in counted.items():
        if count is not None and level.size > 1:
            what = "hot line" if level.unit == HOT_LINE else f"{name} {key}"
            amount = Quantity(count.value * level.size, "byte")
            counted[key] = view.ledger.derived(f"bytes.{what}", amount, f"bytes {what}", count)
    wanted = [part for key, part in counted.items() if direction in ("", key)]
    known = [part for part in wanted if part is not None]
    if not known or len(known) < len(wanted):
        return None
    whole = sum(float(part.value) for part in counted.values() if part is not None)
    label = f"{direction or 'moved'} by {level.label}"
    amount = Quantity(sum(part.value for part in known), "byte")
    moved = view.ledger.derived(f"bytes.{name}.{direction or 'moved'}", amount, label, *known)
    return _Traffic(name, level, moved, whole)


def byte_claim(claim: WorkClaim, model: TimeModel) -> ClaimEffect:
    words = claim.of.strip().lower().replace("_", " ")
    head, _, last = words.rpartition(" ")
    direction = _DIRECTIONS.get(last, "") if head else ""
    name = head if direction else words
    name = _ALIASES.get(name, name)
    if name not in LEVELS:
        levels = ", ".join(LEVELS)
        raise Refused("Bytes are claimed of {of}; not of {it}.", of=levels, it=repr(claim.of))
    view, level, traffic = model.view, LEVELS[name], _traffic(model, name, direction)
    if traffic is None:
        raise Refused("The report does not say how many bytes {it} moved.", it=level.label)
    begin, moved = capitalized(level.label), traffic.moved
    if not moved.value:
        raise Refused("{begin} moved nothing in this launch.", begin=begin, moved=moved)
    if claim.needed is None:
        share = claim.share()
        shown = stated_share(view, f"bytes of {claim.of}", share)
        saved = removable(share) * float(moved.value)
        needed = float(moved.value) - saved
        said = Sentence("{shown:.0f} of them are not needed", shown=shown)
    else:
        shown = stated_amount(view, f"bytes of {claim.of}", in_unit(claim.needed, "byte"))
        _check_amount(view, traffic, shown)
        needed = float(shown.value)
        saved = float(moved.value) - needed
        said = Sentence("{shown} are needed", shown=shown)
    is_doubted = _is_below_stored(claim.spec, view, traffic, direction, needed, shown)
    verb = {"read": "reads", "written": "writes"}.get(direction, "moves")
    removed = min(MOST_REMOVED, saved / traffic.whole) if traffic.whole else 0.0
    did = Sentence("{begin} {verb} {moved}", begin=begin, verb=verb, moved=moved)
    return ClaimEffect(
        as_claimed(did, said),
        _effect(claim.spec, model, traffic, saved, removed),
        (moved, shown),
        level.unit,
        1 - removed,
        is_doubted=is_doubted,
    )


def _stored(view: LaunchView, traffic: _Traffic) -> Evidence | None:
    stored, arrived = stored_bytes(view.launch), view.value(traffic.level.written)
    if not stored or not arrived:
        return None
    amount = Quantity(min(stored, arrived * traffic.level.size), "byte")
    return view.ledger.derived(f"bytes.{traffic.name}.stored", amount, "stored by the kernel")


def _check_amount(view: LaunchView, traffic: _Traffic, shown: Evidence) -> None:
    if not shown.value >= max(1.0, warps_launched(view)):
        raise Refused("{shown} is less than a byte per warp of the launch.", shown=shown)
    if shown.value >= traffic.moved.value:
        text = "{level} moved {moved}, and {shown} are said to be needed: nothing can be saved."
        level = capitalized(traffic.level.label)
        raise Refused(text, level=level, moved=traffic.moved, shown=shown)


def _is_below_stored(  # noqa: PLR0913, PLR0917 - what was claimed, and what was moved
    spec: FindingSpec,
    view: LaunchView,
    traffic: _Traffic,
    direction: str,
    needed: float,
    shown: Evidence,
) -> bool:
    """Raises Refused for what is surely too small: less than the distinct bytes, or than what is
    stored, as far as that reached the level. Where a fix may store less, it is only doubted. Values
    of a narrower type need fewer bytes."""
    if traffic.name not in _CHAIN:
        return False
    from keet.analysis.sass.streaming import REACHED_BOUND

    distinct = _distinct(view, traffic, direction)
    narrowest = NARROWEST if spec.has_narrower_data else 1.0
    if distinct is not None and needed < REACHED_BOUND * narrowest * float(distinct.value):
        text = "The kernel accesses {distinct} of data, and {shown} are said to be needed."
        if shown.unit == "%":
            text = "The kernel accesses {distinct} of data: {shown:.0f} less would not hold it."
        raise Refused(text, distinct=distinct, shown=shown)
    stored = _stored(view, traffic) if not direction else None
    if stored is None or needed >= narrowest * float(stored.value):
        return False
    if not spec.may_drop_stores:
        below = "The kernel stores {stored}, more than is said to be needed in both directions."
        raise Refused(below, stored=stored, shown=shown)
    return True


NARROWEST = Parameter(0.25, "bytes of the narrowest type that suffices, over today's", "judgement")


def least_kept(model: TimeModel) -> Mapping[str, float]:
    """By unit of global memory: the share of its bytes that are distinct or stored, which no
    removal of redundant work removes. Units of which that is not known are left out."""
    least: dict[str, float] = {}
    for name in _CHAIN:
        traffic = _traffic(model, name)
        if traffic is None or not traffic.moved.value:
            continue
        known = (_distinct(model.view, traffic, ""), _stored(model.view, traffic))
        needed = max((float(amount.value) for amount in known if amount), default=0.0)
        if needed:
            least[traffic.level.unit] = min(1.0, needed / float(traffic.moved.value))
    return least


def _distinct(view: LaunchView, traffic: _Traffic, direction: str) -> Evidence | None:
    """Distinct bytes of the arrays that are surely known, and of DRAM only where it is shown that
    it read every byte once: other data may have been in L2 before. None if none is known."""
    streaming = view.streaming
    if traffic.name == "dram":
        is_known = streaming is not None and streaming.verdict == "once"
        known = float(streaming.distinct_bytes or 0) if streaming and is_known else 0.0
        known = 0.0 if direction == "written" else known
    else:
        kinds = {"read": ("read", "updated"), "written": ("written", "updated")}.get(direction)
        exact = [each for each in arrays(view) if each.basis == "exact" and each.distinct_bytes]
        own = (each.distinct_bytes or 0.0 for each in exact if not kinds or each.access in kinds)
        known = min(sum(own), float(traffic.moved.value))
    if not known:
        return None
    name = f"bytes.{traffic.name}.{direction or 'both'}.distinct"
    return view.ledger.derived(name, Quantity(known, "byte"), "distinct bytes", traffic.moved)


def _effect(
    spec: FindingSpec, model: TimeModel, traffic: _Traffic, saved: float, removed: float
) -> Effect:
    """`saved`: bytes. `removed`: as a share of what the level moves in both directions."""
    view, unit = model.view, traffic.level.unit
    if traffic.name in _CHAIN:
        return _less_global(spec, model, traffic, saved, removed)
    if traffic.name == "local":
        return _less_local(model, traffic, saved)
    if traffic.name == "shared":
        effect = less_shared(model, removed)
        if spec.repeats == "shared":
            return effect
        accesses = {"LSU": effect.units["L1"], "issue": 1 - removed * part_of(view, "LDS", "STS")}
        return effect._replace(units={**effect.units, **accesses})
    waits = kept_waits(model, MEMORY_WAITS, removed * model.loads.get(unit, 0.0))
    return Effect({unit: 1 - removed}, waits)


def _less_global(
    spec: FindingSpec, model: TimeModel, traffic: _Traffic, saved: float, removed: float
) -> Effect:
    """A byte that DRAM does not read again does not pass L2 and L1 again either, and no level moves
    more than the level above it requests. Fewer bytes shorten waiting as far as units have queues
    for them."""
    view, units = model.view, {traffic.level.unit: 1 - removed}
    claimed_level = _CHAIN.index(traffic.name)
    for position, name in enumerate(_CHAIN):
        other = _traffic(model, name)
        if position == claimed_level or other is None or not other.whole:
            continue
        if position < claimed_level:
            units[other.level.unit] = 1 - min(removed, saved / other.whole)
        else:
            units[other.level.unit] = min(1.0, (traffic.whole - saved) / other.whole)
    units["L1"] = 1 - (1 - units.get("L1", 1.0)) * global_part(view)
    if spec.repeats != "global":  # loads that are removed also free LSU and issue slots
        fewer = 1 - units["L1"]
        units |= {"LSU": 1 - fewer, "issue": 1 - fewer * part_of(view, "LDG", "STG")}
    pressed = max(model.loads.get(unit, 0.0) for unit in units)
    if spec.repeats == "global":
        shorter = min(1.0, pressed * COALESCED_WAITS)
    else:  # loads that are removed completely are not waited for
        shorter = max(pressed, 1.0 if traffic.name == "global" else INDIRECT)
    return Effect(units, kept_waits(model, (*MEMORY_WAITS, "mio_throttle"), removed * shorter))


def _less_local(model: TimeModel, traffic: _Traffic, saved: float) -> Effect:
    """Local memory as a share of what L1 serves; behind L1, what L1 does not hold."""
    in_global, in_l2 = _traffic(model, "global"), _traffic(model, "l2")
    part = saved / (traffic.whole + (in_global.whole if in_global else 0.0))
    units = {"L1": 1 - part, "LSU": 1 - INDIRECT * part}
    if in_l2 is not None and in_global is not None and in_l2.whole:
        excess = max(0.0, in_l2.whole - in_global.whole) / in_l2.whole
        units |= dict.fromkeys(("L2", "DRAM"), 1 - min(part, excess))
    units["issue"] = 1 - part_of(model.view, "LDL", "STL") * saved / traffic.whole
    return Effect(units, kept_waits(model, MEMORY_WAITS, part))
