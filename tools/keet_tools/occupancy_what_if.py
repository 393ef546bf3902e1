"""The tool `occupancy_what_if`: occupancy with other registers, shared memory or block size.

The hardware allocates registers per warp in units of 256, for four warps (one per scheduler) at a
time, and shared memory per block in units that depend on the compute capability. Checked against
ncu: the limits of 241 launches with compute capability 6.1 to 12.0 agree (up to ncu 2021.2 with the
largest shared memory of an SM, later with the configuration of the launch), and so do ncu's
what-if curves over registers and block sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from keet.analysis.launch_view import LaunchView
from keet.evidence import Evidence
from keet.units import Quantity
from keet_tools.answers import Abstention, Answer, AnswerText, ToolInput, is_number

_REGISTER_UNIT = 256
_WARPS_AT_A_TIME = 4


class Machine(NamedTuple):
    """What an SM can hold."""

    warps: int
    blocks: int
    registers: int
    shared: int
    """Bytes, as they are divided between shared memory and L1 for the launch."""
    shared_unit: int
    """Allocation unit of shared memory in bytes."""
    warp_size: int = 32


class Configuration(NamedTuple):
    """What a block takes."""

    threads: int
    registers: int
    """A thread."""
    shared: int
    """Bytes a block, the driver's own included."""


class Limits(NamedTuple):
    """Blocks an SM can hold by each of its resources."""

    registers: int
    shared: int
    warps: int
    blocks: int
    barriers: int | None = None
    """As the report has it: no change here touches barriers."""

    @property
    def least(self) -> int:
        return min(limit for limit in self if limit is not None)

    @property
    def binding(self) -> tuple[str, ...]:
        """Which of them are the least."""
        return tuple(name for name, limit in zip(self._fields, self) if limit == self.least)


def shared_unit(compute_capability: str | None) -> int:
    major = (compute_capability or "0").partition(".")[0]
    return 128 if major.isdecimal() and int(major) >= 8 else 256


def warps_of(machine: Machine, threads: int) -> int:
    return math.ceil(threads / machine.warp_size)


def limits(machine: Machine, block: Configuration, barriers: int | None = None) -> Limits:
    """How many blocks of that kind fit onto the SM."""
    warps = warps_of(machine, block.threads)
    return Limits(
        registers=_by_registers(machine, block, warps),
        shared=_by_shared(machine, block),
        warps=machine.warps // warps,
        blocks=machine.blocks,
        barriers=barriers,
    )


def _by_registers(machine: Machine, block: Configuration, warps: int) -> int:
    if not block.registers:
        return machine.blocks
    each = _up(block.registers * machine.warp_size, _REGISTER_UNIT)
    fitting = machine.registers // each
    return fitting // _WARPS_AT_A_TIME * _WARPS_AT_A_TIME // warps


def _by_shared(machine: Machine, block: Configuration) -> int:
    taken = _up(block.shared, machine.shared_unit)
    return machine.shared // taken if taken else machine.blocks


def _up(amount: int, unit: int) -> int:
    return math.ceil(amount / unit) * unit


_LIMITS = (
    "block_limit_registers",
    "block_limit_shared_memory",
    "block_limit_warps",
    "block_limit_sm",
)
_WORDS = {"registers": "registers", "shared": "shared memory", "warps": "warps", "blocks": "blocks",
          "barriers": "barriers"}  # fmt: skip


class _Known(NamedTuple):
    """What the report tells of the launch and its GPU."""

    machine: Machine
    block: Configuration
    driver: int
    """Bytes of shared memory that the driver takes of each block."""
    barriers: int | None
    reported: tuple[Evidence, ...]
    occupancy: Evidence
    largest_shared: int
    """Bytes an SM can give to shared memory."""

    @property
    def roomy(self) -> Machine:
        """The SM with all that shared memory can get: the driver gives what a launch needs."""
        return self.machine._replace(shared=self.largest_shared)


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
    known = _known(view)
    say = AnswerText()
    now = _present(known, say)
    if registers is None and shared_bytes is None and block_threads is None:
        return say.answer(now, *_next_steps(view, known, say), *_matters(view, say))
    wanted = known.block._replace(
        threads=known.block.threads if block_threads is None else block_threads,
        registers=known.block.registers if registers is None else registers,
        shared=known.block.shared if shared_bytes is None else shared_bytes + known.driver,
    )
    _refuse_impossible(view, wanted, known)
    return say.answer(now, *_changed(view, known, wanted, say), *_matters(view, say))


# --- what is


def _known(view: LaunchView) -> _Known:
    """The launch's own limits, which have to come out as the report has them."""
    block, driver = _configuration(view)
    machine = _machine(view)
    reported = tuple(_needed(view, metric) for metric in _LIMITS)
    barriers = view.value("block_limit_barriers")
    count = int(barriers) if barriers else None
    largest = machine.shared
    for shared in (_whole(view, "shared_memory_config"), largest):
        candidate = machine._replace(shared=shared or largest)
        if limits(candidate, block)[:4] == tuple(int(e.value) for e in reported):
            occupancy = _needed(view, "theoretical_occupancy_pct")
            return _Known(candidate, block, driver, count, reported, occupancy, largest)
    raise Abstention(
        "keet's arithmetic does not give the report's own block limits here, so that a what-if "
        "would be a guess; see lookup_metric `block_limit_registers`"
    )


def _needed(view: LaunchView, metric: str) -> Evidence:
    found = view.get(metric)
    if found is None or not is_number(found):
        raise Abstention(
            f"the report has no number for `{metric}`; profile with `--section Occupancy`"
        )
    return found


def _whole(view: LaunchView, metric: str) -> int | None:
    """Without an entry in the ledger: what is only computed with is no evidence."""
    found = view.launch.get(metric)
    return int(found.value) if found and found.value == found.value else None


def _required(view: LaunchView, metric: str, other: str | None = None) -> int:
    found = _whole(view, metric)
    if found is None and other:
        found = _whole(view, other)
    if found is None:
        raise Abstention(f"the report has no `{metric}`; profile with `--section LaunchStats`")
    return found


def _configuration(view: LaunchView) -> tuple[Configuration, int]:
    driver = _whole(view, "shared_memory_driver") or 0
    own = (_whole(view, "shared_memory_static") or 0) + (_whole(view, "shared_memory_dynamic") or 0)
    block = Configuration(
        threads=_required(view, "block_size"),
        registers=_required(view, "registers_per_thread"),
        shared=own + driver,
    )
    return block, driver


def _machine(view: LaunchView) -> Machine:
    registers = _required(view, "device_registers_per_sm")
    return Machine(
        warps=_required(view, "device_warps_per_sm"),
        blocks=_required(view, "device_blocks_per_sm", "block_limit_sm"),
        registers=registers,
        shared=_required(view, "device_shared_memory_per_sm"),
        shared_unit=shared_unit(view.launch.device.compute_capability),
    )


def _present(known: _Known, say: AnswerText) -> str:
    each = ", ".join(f"{name} {say(e)}" for name, e in zip(_WORDS.values(), known.reported))
    found = limits(known.machine, known.block, known.barriers)
    return (
        f"Now: theoretical occupancy {say(known.occupancy)}, limited by {_by(found)}. "
        f"Blocks an SM by resource: {each}."
    )


def _by(found: Limits) -> str:
    return " and ".join(_WORDS[name] for name in found.binding)


# --- what would be


def _refuse_impossible(view: LaunchView, wanted: Configuration, known: _Known) -> None:
    most = (
        ("block_threads", wanted.threads, _whole(view, "device_threads_per_block") or 1024, 1),
        ("registers", wanted.registers, _whole(view, "device_registers_per_thread") or 255, 1),
        ("shared_bytes", wanted.shared - known.driver, _most_shared(view, known), 0),
    )
    for name, value, limit, least in most:
        if not least <= value <= limit:
            raise Abstention(f"`{name}={value}` can't be: it has to be `{least}` to `{limit}` here")


def _most_shared(view: LaunchView, known: _Known) -> int:
    return _whole(view, "device_shared_memory_per_block_optin") or known.largest_shared


def _changed(view: LaunchView, known: _Known, wanted: Configuration, say: AnswerText) -> list[str]:
    found = limits(known.roomy, wanted, known.barriers)
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


def _assumed(view: LaunchView, known: _Known, wanted: Configuration) -> list[Evidence]:
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
    view: LaunchView, known: _Known, found: Limits, wanted: Configuration, name: str
) -> tuple[Evidence, Evidence]:
    share = 100 * found.least * warps_of(known.machine, wanted.threads) / known.machine.warps
    occupancy = view.ledger.derived(
        f"occupancy_if {name}", Quantity(share, "%"), "theoretical occupancy if changed"
    )
    blocks = view.ledger.derived(
        f"blocks_per_sm_if {name}", Quantity(found.least, "block"), "blocks per SM if changed"
    )
    return occupancy, blocks


def _carve_out(
    view: LaunchView, known: _Known, wanted: Configuration, found: Limits, say: AnswerText
) -> list[str]:
    """Shared memory and L1 share an SM's memory; the driver divides it at each launch."""
    if limits(known.machine, wanted, known.barriers).least >= found.least:
        return []
    size = view.ledger.measured("shared_memory_config")
    now = f" (now {say(size)})" if size else ""
    return [f"That takes a larger share of the SM's memory for shared memory{now} and less L1."]


def _next_steps(view: LaunchView, known: _Known, say: AnswerText) -> list[str]:
    """How little of each resource would let one more block onto the SM."""
    found = limits(known.roomy, known.block, known.barriers)
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
    known: _Known,
    say: AnswerText,
    name: str,
    unit: str,
    change: Callable[[Configuration, int], Configuration],
) -> str:
    now = limits(known.roomy, known.block, known.barriers)
    have = getattr(known.block, name)
    least = known.driver if name == "shared" else 1
    fitting = _largest(
        lambda n: getattr(limits(known.roomy, change(known.block, n)), name) > now.least,
        least,
        have,
    )
    if fitting is None:
        return ""
    own = fitting - (known.driver if name == "shared" else 0)
    needed = view.ledger.derived(
        f"{name}_for_one_more_block", Quantity(own, unit), f"{_WORDS[name]} for one more block"
    )
    return f"One more block an SM, as far as {_WORDS[name]} go, takes {say(needed)} at most."


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
