"""Evaluates a model's claim that fewer bytes are needed: its effect on time, or a refusal.

The claim says how many bytes a memory level has to move; the report says how many it moved.

A byte that DRAM does not read again does not pass L2 and L1 again either, and no level moves more
than the level above it requests: both follow from the claimed amount of one level.
"""

from __future__ import annotations

from collections.abc import Mapping

from keet.analysis.candidates.candidate import (
    MEMORY_WAITS,
    MIO_WAITS,
    kept_waits,
    part_of,
    shared_part,
)
from keet.analysis.candidates.global_memory import global_part
from keet.analysis.candidates.memory import other_waits
from keet.analysis.hardware.ceilings import HOST_LINK
from keet.analysis.launch_view import LaunchView
from keet.analysis.model_claims.claim import WorkClaim
from keet.analysis.model_claims.claim_effect import (
    ClaimEffect,
    Refusal,
    claimed,
    claimed_share,
    in_unit,
    removable,
    share_problem,
    warps_launched,
)
from keet.analysis.parameters import parameter
from keet.analysis.several_launches.traffic import SECTOR, stored_bytes
from keet.analysis.time_model import HOT_LINE, Effect, TimeModel
from keet.evidence import Evidence
from keet.formatting import capitalized
from keet.records import NamedTuple
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
    HOT_LINE.lower(): Level(HOT_LINE, "the busiest slice of L2"),
}
_ALIASES = {"l1": "global", "host": HOST_LINK, "pcie": HOST_LINK, "hot line": HOT_LINE.lower()}
_DIRECTIONS = {"read": "read", "load": "read", "written": "written", "write": "written"} | {
    "reads": "read",
    "loads": "read",
    "writes": "written",
    "store": "written",
    "stores": "written",
}


class MovedBytes(NamedTuple):
    """What one level moved."""

    name: str
    level: Level
    now: Evidence
    """Bytes, in the direction of the claim."""
    whole: float
    """Bytes in both directions."""
    direction: str
    """`read` or `written`; empty for both."""


def level_named(of: str) -> tuple[str, str] | None:
    """`DRAM read`: the level and the direction."""
    words = of.strip().lower().replace("_", " ")
    head, _, last = words.rpartition(" ")
    direction = _DIRECTIONS.get(last, "") if head else ""
    name = head if direction else words
    name = _ALIASES.get(name, name)
    return (name, direction) if name in LEVELS else None


def moved(view: LaunchView, model: TimeModel, name: str, direction: str = "") -> MovedBytes | None:
    """None if the report does not say."""
    level = LEVELS[name]
    parts = _parts(view, model, name, level)
    wanted = [part for key, part in parts.items() if direction in ("", key)]
    known = [part for part in wanted if part is not None]
    if not known or len(known) < len(wanted):
        return None
    whole = sum(float(part.value) for part in parts.values() if part is not None)
    label = f"{direction or 'moved'} by {level.label}"
    amount = Quantity(sum(part.value for part in known), "byte")
    now = view.ledger.derived(f"bytes.{name}.{direction or 'moved'}", amount, label, *known)
    return MovedBytes(name, level, now, whole, direction)


def _parts(
    view: LaunchView, model: TimeModel, name: str, level: Level
) -> Mapping[str, Evidence | None]:
    """Bytes by direction."""
    if name == HOST_LINK:  # entered by the ceilings if the link was used
        used = view.ceilings.get(HOST_LINK) is not None
        keys = {
            key: view.ledger.entry_named(f"host_link.{key}.bytes") for key in ("read", "written")
        }
        return {key: part for key, part in keys.items() if used and part is not None}
    if level.unit == HOT_LINE:
        hot = model.hot_line
        return {"read": _as_bytes(view, "hot line", hot.most, SECTOR) if hot else None}
    return {
        key: _as_bytes(view, f"{name} {key}", view.get(metric), level.size)
        for key, metric in (("read", level.read), ("written", level.written))
    }


def _as_bytes(view: LaunchView, name: str, counted: Evidence | None, size: int) -> Evidence | None:
    if counted is None or size == 1:
        return counted
    amount = Quantity(counted.value * size, "byte")
    return view.ledger.derived(f"bytes.{name}", amount, f"bytes {name}", counted)


def byte_claim(claim: WorkClaim, view: LaunchView, model: TimeModel) -> ClaimEffect | Refusal:
    named = level_named(claim.of)
    if named is None:
        return Refusal(f"Bytes are claimed of {', '.join(LEVELS)}; not of {claim.of!r}.")
    found = moved(view, model, *named)
    if found is None:
        return Refusal(f"The report does not say how many bytes {_level(named[0])} moved.")
    if not found.now.value:
        return Refusal(f"{_begin(found)} moved nothing in this launch.", (found.now,))
    if claim.needed is None:
        problem = share_problem(claim.removed)
        return problem or _by_share(claim, view, model, found)
    needed = in_unit(claim.needed, "byte")
    if isinstance(needed, Refusal):
        return needed
    shown = claimed(view, f"bytes of {claim.of}", needed)
    problem = _amount_problem(claim, view, found, shown)
    return problem or _by_amount(claim, view, model, found, shown)


def _level(name: str) -> str:
    return LEVELS[name].label


def _begin(found: MovedBytes) -> str:
    label = found.level.label
    return capitalized(label)


def _amount_problem(
    claim: WorkClaim, view: LaunchView, found: MovedBytes, shown: Evidence
) -> Refusal | None:
    """Refuses only amounts that are certainly wrong."""
    evidence = (found.now, shown)
    if not shown.value >= max(1.0, warps_launched(view)):
        return Refusal(f"{shown} is less than a byte per warp of the launch.", (shown,))
    if shown.value >= found.now.value:
        reason = f"{_begin(found)} moved {found.now}, and {shown} are said to be needed"
        return Refusal(f"{reason}: nothing can be saved.", evidence)
    stored = _compulsory(view, found)
    # Only redundant data may be stored unnecessarily: for a later launch, or for another pass.
    is_kept = claim.finding != "redundant_traffic"
    if is_kept and stored is not None and shown.value < stored.value:
        reason = f"The kernel stores {stored}, more than the {shown} that are said to be needed"
        return Refusal(f"{reason} in both directions.", (stored, shown))
    return None


def _compulsory(view: LaunchView, found: MovedBytes) -> Evidence | None:
    """Bytes that must be written: those stored, as far as they reached the level. A claim about the
    stores themselves names its direction, and is not checked against them."""
    if found.direction or found.name not in ("dram", "l2", "global"):
        return None
    stored, level = stored_bytes(view.launch), found.level
    arrived = view.value(level.written)
    if not stored or not arrived:
        return None
    amount = Quantity(min(stored, arrived * level.size), "byte")
    return view.ledger.derived(f"bytes.{found.name}.stored", amount, "stored by the kernel")


def _by_amount(
    claim: WorkClaim, view: LaunchView, model: TimeModel, found: MovedBytes, shown: Evidence
) -> ClaimEffect:
    saved = float(found.now.value) - float(shown.value)
    return ClaimEffect(
        f"{_begin(found)} {_verb(found)} {found.now}; by the model's reading of the source, "
        f"{shown} are needed.",
        _effect(claim, view, model, found, saved),
        (found.now, shown),
        found.level.unit,
        1 - _part(found, saved),
        is_doubted=_is_doubted(view, found, float(shown.value)),
    )


def _by_share(
    claim: WorkClaim, view: LaunchView, model: TimeModel, found: MovedBytes
) -> ClaimEffect:
    removed = removable(claim.removed or 0.0)
    saved = removed * float(found.now.value)
    share = claimed_share(view, f"bytes of {claim.of}", claim.removed or 0.0)
    return ClaimEffect(
        f"{_begin(found)} {_verb(found)} {found.now}; by the model's reading of the source, "
        f"{share:.0f} of them are not needed.",
        _effect(claim, view, model, found, saved),
        (found.now, share),
        found.level.unit,
        1 - _part(found, saved),
        is_doubted=_is_doubted(view, found, float(found.now.value) - saved),
    )


def _verb(found: MovedBytes) -> str:
    return {"read": "reads", "written": "writes"}.get(found.direction, "moves")


def _part(found: MovedBytes, saved: float) -> float:
    """As a share of what the level moves in both directions, 0 to 1."""
    return min(parameter("most_removed"), saved / found.whole) if found.whole else 0.0


def _is_doubted(view: LaunchView, found: MovedBytes, needed: float) -> bool:
    """Whether the amount is below what the kernel stores, or below what it is shown to read
    once."""
    stored = _compulsory(view, found)
    less = stored is not None and needed < float(stored.value)
    return less or _reads_once(view, found, needed)


def _reads_once(view: LaunchView, found: MovedBytes, needed: float) -> bool:
    """Whether the addresses show that DRAM reads every byte once, so that fewer reads would mean
    less data."""
    if found.name not in ("dram", "l2", "global") or found.direction == "written":
        return False
    streaming = view.streaming
    if streaming is None or streaming.verdict != "once" or not streaming.distinct_bytes:
        return False
    from keet.analysis.sass.streaming import REACHED_BOUND

    return needed < REACHED_BOUND * streaming.distinct_bytes


# --- effects


def _effect(
    claim: WorkClaim, view: LaunchView, model: TimeModel, found: MovedBytes, saved: float
) -> Effect:
    removed = _part(found, saved)
    if found.name == "shared":
        return _less_shared(claim, view, model, removed)
    if found.name == "local":
        return _less_local(view, model, found, saved)
    if found.name in (HOST_LINK, HOT_LINE.lower()):
        load = model.loads.get(found.level.unit, 0.0)
        waits = kept_waits(model, MEMORY_WAITS, removed * load)
        return Effect({found.level.unit: 1 - removed}, waits)
    return _less_global(claim, view, model, found, saved)


_CHAIN = ("global", "l2", "dram")
"""From the threads outwards."""


def _less_global(
    claim: WorkClaim, view: LaunchView, model: TimeModel, found: MovedBytes, saved: float
) -> Effect:
    units = {found.level.unit: 1 - _part(found, saved)}
    at = _CHAIN.index(found.name)
    for place, name in enumerate(_CHAIN):
        other = moved(view, model, name)
        if place == at or other is None or not other.whole:
            continue
        left = found.whole - saved
        within = 1 - min(_part(found, saved), saved / other.whole)
        units[other.level.unit] = within if place < at else min(1.0, left / other.whole)
    own = global_part(view)
    units["L1"] = 1 - (1 - units.get("L1", 1.0)) * own
    if claim.finding != "uncoalesced_global":  # there, the number of instructions stays the same
        units |= _fewer_accesses(view, 1 - units["L1"])
    waits = _part(found, saved) * _waits_along(claim, model, found, units)
    return Effect(units, kept_waits(model, (*MEMORY_WAITS, "mio_throttle"), waits))


def _fewer_accesses(view: LaunchView, removed: float) -> dict[str, float]:
    """Loads that are removed also free LSU and issue slots."""
    part = part_of(view, "LDG", "STG")
    return {"LSU": 1 - removed, "issue": 1 - removed * part}


def _waits_along(
    claim: WorkClaim, model: TimeModel, found: MovedBytes, units: Mapping[str, float]
) -> float:
    """Share of the memory waiting that is removed with the bytes, 0 to 1.

    Fewer bytes shorten waiting as far as units have queues for them. Loads that are removed
    completely are not waited for.
    """
    pressed = max(model.loads.get(unit, 0.0) for unit in units)
    if claim.finding == "uncoalesced_global":
        return min(1.0, pressed * parameter("coalesced_waits"))
    return max(pressed, 1.0 if found.name == "global" else parameter("indirect"))


def _less_shared(claim: WorkClaim, view: LaunchView, model: TimeModel, removed: float) -> Effect:
    part = shared_part(view)
    units = {"L1": 1 - removed * (1.0 if part is None else part)}
    if claim.finding != "shared_bank_conflict":  # conflicts are repeats of the same instruction
        units |= {"LSU": units["L1"], "issue": 1 - removed * part_of(view, "LDS", "STS")}
    return Effect(units, kept_waits(model, MIO_WAITS, removed), least=other_waits(model))


def _less_local(view: LaunchView, model: TimeModel, found: MovedBytes, saved: float) -> Effect:
    """Local memory as a share of what L1 serves; behind L1, what L1 does not hold."""
    world = moved(view, model, "global")
    part = saved / (found.whole + (world.whole if world else 0.0))
    units = {"L1": 1 - part, "LSU": 1 - parameter("indirect") * part}
    behind = moved(view, model, "l2")
    if behind is not None and world is not None and behind.whole:
        excess = max(0.0, behind.whole - world.whole) / behind.whole
        units |= dict.fromkeys(("L2", "DRAM"), 1 - min(part, excess))
    units["issue"] = 1 - part_of(view, "LDL", "STL") * saved / found.whole
    return Effect(units, kept_waits(model, MEMORY_WAITS, part))
