"""The tool `occupancy_what_if`: occupancy with other registers, shared memory or block size."""

from __future__ import annotations

from collections.abc import Callable

from keet.analysis.kernel.occupancy import (
    LIMIT_NAMES,
    Configuration,
    Limits,
    OccupancyModel,
    limits,
    occupancy_model,
)
from keet.analysis.kernel.resident_warps import BLOCK_LIMITS
from keet.analysis.launch_view import LaunchView
from keet.evidence import Evidence
from keet.profile import Absent
from keet.units import Quantity
from keet_tools.answers import Abstention, Answer, AnswerText, ToolInput


def occupancy_what_if(  # noqa: PLR0913, PLR0917 - the arguments of a question
    tool_input: ToolInput,
    registers: int | None = None,
    shared_bytes: int | None = None,
    block_threads: int | None = None,
    launch: int | None = None,
    report: int = 0,
) -> Answer:
    """Theoretical occupancy if registers/thread, shared bytes/block or block size changed."""
    view = tool_input.launch(launch, report).view
    known = occupancy_model(view.launch)
    if isinstance(known, Absent):
        raise Abstention(f"{known.reason}; {known.remedy}")
    say = AnswerText()
    now = _present(view, known, say)
    if registers is None and shared_bytes is None and block_threads is None:
        return say.answer(now, *_next_steps(view, known, say), *_matters(view, say))
    wanted = known.block._replace(
        threads=known.block.threads if block_threads is None else block_threads,
        registers=known.block.registers if registers is None else registers,
        shared=known.block.shared if shared_bytes is None else shared_bytes + known.driver,
    )
    _refuse_impossible(wanted, known)
    return say.answer(now, *_changed(view, known, wanted, say), *_matters(view, say))


# --- what is


def _present(view: LaunchView, known: OccupancyModel, say: AnswerText) -> str:
    occupancy, *reported = map(view.get, ("theoretical_occupancy_pct", *BLOCK_LIMITS.values()))
    each = ", ".join(f"{name} {say(e)}" for name, e in zip(LIMIT_NAMES.values(), reported) if e)
    return (
        f"Now: theoretical occupancy {say(occupancy) if occupancy else 'unknown'}, limited by "
        f"{_by(known.limits(known.block))}. Blocks an SM by resource: {each}."
    )


def _by(found: Limits) -> str:
    return " and ".join(LIMIT_NAMES[name] for name in found.binding)


# --- what would be


def _refuse_impossible(wanted: Configuration, known: OccupancyModel) -> None:
    most = known.most
    ranges = (
        ("block_threads", wanted.threads, most.threads, 1),
        ("registers", wanted.registers, most.registers, 1),
        ("shared_bytes", wanted.shared - known.driver, most.shared, 0),
    )
    for name, value, limit, least in ranges:
        if not least <= value <= limit:
            raise Abstention(f"`{name}={value}` can't be: it has to be `{least}` to `{limit}` here")


def _changed(
    view: LaunchView, known: OccupancyModel, wanted: Configuration, say: AnswerText
) -> list[str]:
    found = known.limits(wanted)
    name = (
        f"registers={wanted.registers} shared_bytes={wanted.shared - known.driver} "
        f"block_threads={wanted.threads}"
    )
    if not found.least:
        return [f"With `{name}`: not one block fits ({_by(found)}); it could not be launched."]
    occupancy, blocks = _evidence(view, known, found, wanted, name)
    assumed = ", ".join(say(piece) for piece in _assumed(view, known, wanted))
    return [
        f"Assumed: {assumed}." if assumed else "",
        f"With `{name}`: theoretical occupancy {say(occupancy)}, {say(blocks)} an SM, limited by "
        f"{_by(found)}.",
        *_carve_out(view, known, wanted, found, say),
    ]


def _assumed(view: LaunchView, known: OccupancyModel, wanted: Configuration) -> list[Evidence]:
    """What was asked for, with an id: an answer may speak of it."""
    before = known.block
    changed = (
        ("register/thread", "registers if changed", before.registers, wanted.registers, 0),
        ("byte/block", "shared memory if changed", before.shared, wanted.shared, known.driver),
        ("thread/block", "block size if changed", before.threads, wanted.threads, 0),
    )
    return [
        view.ledger.derived(f"{label} {value - own}", Quantity(value - own, unit), label)
        for unit, label, had, value, own in changed
        if value != had
    ]


def _evidence(
    view: LaunchView, known: OccupancyModel, found: Limits, wanted: Configuration, name: str
) -> tuple[Evidence, Evidence]:
    share = 100 * known.warps(wanted) / known.machine.warps
    occupancy = view.ledger.derived(
        f"occupancy_if {name}", Quantity(share, "%"), "theoretical occupancy if changed"
    )
    blocks = view.ledger.derived(
        f"blocks_per_sm_if {name}", Quantity(found.least, "block"), "blocks per SM if changed"
    )
    return occupancy, blocks


def _carve_out(
    view: LaunchView, known: OccupancyModel, wanted: Configuration, found: Limits, say: AnswerText
) -> list[str]:
    """Shared memory and L1 share an SM's memory; the driver divides it at each launch."""
    given = known.machine._replace(shared=known.given)
    if limits(given, wanted, known.barriers).least >= found.least:
        return []
    size = view.ledger.measured("shared_memory_config")
    now = f" (now {say(size)})" if size else ""
    return [f"That takes a larger share of the SM's memory for shared memory{now} and less L1."]


def _next_steps(view: LaunchView, known: OccupancyModel, say: AnswerText) -> list[str]:
    """How little of each resource would let one more block onto the SM."""
    found = known.limits(known.block)
    steps = [
        _step(
            view, known, say, "registers", "register/thread", lambda b, n: b._replace(registers=n)
        ),
        _step(view, known, say, "shared", "byte/block", lambda b, n: b._replace(shared=n)),
    ]
    steps = [step for name, step in zip(("registers", "shared"), steps) if name in found.binding]
    return [step for step in steps if step] or ["No single change of these lets one more block in."]


def _step(  # noqa: PLR0913, PLR0917 - one row of the table above
    view: LaunchView,
    known: OccupancyModel,
    say: AnswerText,
    name: str,
    unit: str,
    change: Callable[[Configuration, int], Configuration],
) -> str:
    now = known.limits(known.block)
    have = getattr(known.block, name)
    least = known.driver if name == "shared" else 1
    fitting = _largest(
        lambda n: getattr(known.limits(change(known.block, n)), name) > now.least,
        least,
        have,
    )
    if fitting is None:
        return ""
    own = fitting - (known.driver if name == "shared" else 0)
    needed = view.ledger.derived(
        f"{name}_for_one_more_block", Quantity(own, unit), f"{LIMIT_NAMES[name]} for one more block"
    )
    return f"One more block an SM, as far as {LIMIT_NAMES[name]} go, takes {say(needed)} at most."


def _largest(fits: Callable[[int], bool], low: int, high: int) -> int | None:
    """By halving: what fits, fits with less too."""
    if low > high or not fits(low):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _matters(view: LaunchView, say: AnswerText) -> list[str]:
    achieved, idle = view.get("achieved_occupancy_pct"), view.get("no_eligible_pct")
    parts = [f"achieved occupancy {say(achieved)}"] if achieved else []
    parts += [f"cycles without an eligible warp {say(idle)}"] if idle else []
    if not parts:
        return []
    return [f"More occupancy helps only where schedulers starve: {', '.join(parts)}."]
