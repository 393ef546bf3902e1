"""Candidates in redundant traffic: from DRAM, from L2, or between launches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from keet.analysis.candidate import MEMORY_WAITS, Candidate, kept_waits
from keet.analysis.kernel.library import library_of
from keet.analysis.launch_view import LaunchView
from keet.analysis.parameters import parameter
from keet.analysis.place import Place
from keet.analysis.time_model import Effect, TimeModel
from keet.records import NamedTuple
from keet.units import Quantity

if TYPE_CHECKING:
    from keet.analysis.sass.analyses.reuse import PointerReuse
    from keet.analysis.sass.machine_code import MachineCode
    from keet.analysis.several_launches.cross_launch import CrossLaunch

_LEAST_READ = 1e6
"""Bytes below which instructions and constants are a notable part of the DRAM reads."""
_LEAST_KEPT = 0.2
"""Judgement: no rewrite is expected to save more than 80 % of L2's reads."""


def read_again(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    """The same bytes come from DRAM more than once within the launch."""
    read, executed = view.get("dram_bytes_read"), view.get("inst_executed")
    if view.code is None or read is None or executed is None or read.value < _LEAST_READ:
        return
    repeats = _Repeats(view.code, float(read.value), view.value("device_l2_size"))
    if not repeats.wasted:
        return
    distinct = view.ledger.derived(
        "distinct_bytes",
        Quantity(float(read.value) - repeats.wasted, "byte"),
        "bytes that would be read from DRAM if each were read once",
        executed,
    )
    times = view.ledger.derived(
        "dram_reads_per_byte",
        Quantity(float(read.value) / max(float(distinct.value), 1.0), ""),
        "DRAM reads of each byte",
        read,
        distinct,
    )
    written = view.value("dram_bytes_written") or 0.0
    kept = 1 - min(parameter("most_removed"), repeats.wasted / (float(read.value) + written))
    within = 1 - min(1 - kept, repeats.wasted / max(_l1_bytes(view), 1.0))
    # Most of what threads load may come from L1: that part stays.
    loaded = 32.0 * (view.value("global_load_sectors") or 0.0)
    asked = 1 - min(1 - kept, repeats.wasted / max(loaded, _l1_bytes(view), 1.0))
    units = {"DRAM": kept, "L2": within, "L1": asked, "LSU": asked}
    yield Candidate(
        "redundant_traffic",
        f"The launch reads {read} from DRAM, but the addresses of its loads cover {repeats.hedge} "
        f"{distinct}: each byte is read {times:.1f} times on average.",
        Effect(units, kept_waits(model, MEMORY_WAITS, (1 - kept) * _pressed(model))),
        (times, read, distinct),
        lambda: _repeated_places(view, repeats.rows),
        variant="passes" if repeats.has_passes else "",
    )


def _pressed(model: TimeModel) -> float:
    """Fewer bytes shorten waiting only as far as there is a queue for them."""
    return max(model.loads.get(unit, 0.0) for unit in ("DRAM", "L2"))


def _l1_bytes(view: LaunchView) -> float:
    """Bytes that L1 exchanged with L2."""
    return 32.0 * (view.value("l2_l1_sectors") or 0.0)


_MOST_PASSES = 8.0
"""Judgement: a loop with more iterations is not a pass over the data."""


class _Repeats:
    """Bytes that are read from DRAM more than once, from the addresses of the loads."""

    def __init__(self, code: MachineCode, read: float, l2_bytes: float | None) -> None:
        bounded = [row for row in code.reuse if row.sector_bytes_at_most]
        limit = parameter("repeated")
        self.rows = [row for row in bounded if (row.times or 0) >= limit]
        self.has_passes = any(_is_passes(row) for row in self.rows)
        distinct = float(sum(row.sector_bytes_at_most or 0 for row in bounded))
        everything = gathered = float(
            sum(row.l1_bytes or 0 for row in code.reuse if not row.sector_bytes_at_most)
        )
        asked = sum(_beyond_l2(row, distinct + gathered, l2_bytes) for row in self.rows)
        passes = min((row.times or 1.0 for row in self.rows if _is_passes(row)), default=1.0)
        if gathered and limit <= passes <= _MOST_PASSES and len(self.rows) == len(bounded):
            # Data that is gathered with indices read in several passes is gathered as often.
            asked += gathered * (1 - 1 / passes)
            gathered = 0.0
        # Reads at addresses without a known bound may all be needed.
        bounded_bytes = float(sum(row.l1_bytes or 0 for row in bounded))
        known = bounded_bytes / (bounded_bytes + gathered) if bounded_bytes else 0.0
        self.wasted = min(asked, known * max(0.0, read - distinct))
        vague = everything or any(row.basis == "estimate" for row in bounded)
        self.hedge = "about" if vague else "at most"


def _beyond_l2(row: PointerReuse, everything: float, l2_bytes: float | None) -> float:
    """Bytes that DRAM reads again for a pointer; data that stays in L2 is read once.

    Between two passes over the data everything else goes through L2; a small table stays there.
    """
    own = float(row.sector_bytes_at_most or 0)
    between = everything if _is_passes(row) else own
    outside = min(1.0, between / l2_bytes) if l2_bytes else 1.0
    return outside * ((row.l1_bytes or 0) - own)


def _is_passes(row: PointerReuse) -> bool:
    """Whether each thread has its own addresses, so that repeats come from loops over the same
    data."""
    loads = [access for access in row.accesses if access.kind == "load"]
    kinds = [{symbol.kind for symbol in access.offset.symbols} for access in loads]
    return bool(kinds) and all({"tid", "ctaid"} <= each for each in kinds)


def _repeated_places(view: LaunchView, rows: Sequence[PointerReuse]) -> tuple[Place, ...]:
    """Lines of the loads through pointers that are read more than once."""
    if view.code is None:
        return ()
    sectors = view.code.sectors or {}
    costs = {
        address: sectors.get(address, 0)
        for row in rows
        for access in row.accesses
        for address in (view.code.program.code[access.position].address,)
    }
    return view.places_by("global sectors", costs)


def reread_from_l2(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    """L2 delivers more bytes than it got from DRAM: blocks or threads load the same bytes."""
    sectors, read = view.get("l2_l1_read_sectors"), view.get("dram_bytes_read")
    if sectors is None or read is None:
        return
    delivered = 32.0 * float(sectors.value)
    if delivered <= float(read.value) or read.value < _LEAST_READ:
        return
    written = 32.0 * (view.value("l2_l1_write_sectors") or 0.0)
    kept = max((float(read.value) + written) / (delivered + written), _LEAST_KEPT)
    kept = 1 - (1 - kept ** parameter("reuse")) * (1 - _gathered_share(view))
    asked = view.ledger.derived(
        "l2_bytes_delivered", Quantity(delivered, "byte"), "read from L2 by L1", sectors
    )
    times = view.ratio("l2_reads_per_byte", "L2 reads over DRAM reads", asked, read)
    if times is None:
        return
    yield Candidate(
        "redundant_traffic",
        f"L1 reads {asked} from L2, {times:.1f} times the {read} that come from DRAM: blocks or "
        "neighbouring threads load the same bytes again.",
        Effect({"L2": kept}, kept_waits(model, MEMORY_WAITS, (1 - kept) * _pressed(model))),
        (times, asked, read),
        lambda: view.column_places("global sectors", "src_l2_sectors_global"),
        "assumed",
        variant="l2",
    )


def _gathered_share(view: LaunchView) -> float:
    """Share of the loaded bytes at addresses that depend on data: tiles do not help there."""
    if view.code is None:
        return 0.0
    loads = [(a.requested_bytes or 0, a.is_gather) for a in view.code.accesses if a.kind == "load"]
    total = sum(size for size, _ in loads)
    return sum(size for size, gathered in loads if gathered) / total if total else 0.0


_LIKELY = {"high": 1.0, "medium": 0.8, "low": 0.5}
"""Judgement: how often equal amounts of bytes are the same data."""
_SAME_INPUT = 0.4
"""Judgement: the same if both launches read and neither writes; arrays often have equal sizes."""


class SharedTraffic(NamedTuple):
    """Data that several launches move one after the other."""

    found: CrossLaunch
    total_us: float
    """Time of these launches."""
    saved_us: float


def shared_traffic(
    found: Sequence[CrossLaunch], times_us: Mapping[int, float]
) -> dict[int, SharedTraffic]:
    """Per launch: the finding across launches that would save most.

    Repeated passes are left out here: how many equal launches a report has depends on its capture.
    """
    by_launch: dict[int, SharedTraffic] = {}
    for each in found:
        if each.saved_us is None or each.kind not in ("hand_over", "same_input"):
            continue
        total = sum(times_us.get(launch, 0.0) for launch in each.launches)
        shared = SharedTraffic(each, total, float(each.saved_us.value))
        if 0 < shared.saved_us < total:
            for launch in each.launches:
                by_launch.setdefault(launch, shared)
    return by_launch


def between_launches(view: LaunchView, shared: SharedTraffic) -> Iterator[Candidate]:
    """Data that this and other launches move one after the other: a suspicion.

    The gain is that of the launches together: a round trip is saved in two of them.
    """
    if library_of(view.launch.name.full) is not None:  # users can't fuse a library's kernel
        return
    each, total, saved = shared
    evidence = tuple(view.ledger.adopt(piece) for piece in each.evidence)
    yield Candidate(
        "redundant_traffic",
        each.text,
        total / (total - min(saved, parameter("most_removed") * total)),
        evidence,
        lambda: view.column_places("global sectors", "src_l2_sectors_global"),
        "suspected",
        variant=each.kind,
        likelihood=_SAME_INPUT if each.kind == "same_input" else _LIKELY[each.confidence],
    )


MAKERS = (read_again, reread_from_l2)
