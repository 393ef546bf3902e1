"""Shared-memory bank conflicts."""

from __future__ import annotations

from collections.abc import Iterator

from keet.analysis.candidate import Candidate
from keet.analysis.decisions.replays import COALESCED_WAITS, REPLAYED, replays
from keet.analysis.hotspots.source_calls import beside, chosen_for
from keet.analysis.launch_view import LaunchView
from keet.analysis.memory_work import UNRELATED_WAITS, less_shared, shared_addresses
from keet.analysis.parameters import WIDEST
from keet.analysis.remedy_conditions import on_chip, origin
from keet.analysis.time_model import MOST_REMOVED, TimeModel
from keet.documents.finding import Place
from keet.evidence import Evidence, Sentence
from keet.findings import Absence, Edit, FindingSpec, SmallShare, absence, otherwise, when

FINDING = FindingSpec(
    id="shared_bank_conflict",
    family="memory",
    label="shared-memory bank conflicts",
    meaning="Threads of a warp access different words in the same bank, so a request takes "
    "several wavefronts.",
    how="The wavefronts of shared loads and stores that are repeats because of bank conflicts are "
    "compared with all of their wavefronts. The fix removes that share of the work of L1 and of "
    "the waiting for shared memory. Where the memory tables are missing, the wavefronts of each "
    "instruction are compared with the fewest that it could need. Without any of these counters, "
    "keet suspects it where a kernel with "
    "shared memory keeps L1 busy much longer than the LSU pipe that feeds it, L2 gets a notable "
    "part of what passes through L1, in lookups of whole lines, and the size of static shared "
    "memory is not that of padded tiles.",
    rules=("UncoalescedSharedAccess", "SharedMemoryConflicts"),
    credited_rules=("CPIStall", "UncoalescedSharedAccess", "SharedMemoryConflicts"),
    parameters=(UNRELATED_WAITS, COALESCED_WAITS, REPLAYED, WIDEST),
    claims=("bytes", "waiting"),
    rests_on=("shared",),
    memory="shared",
    repeats="shared",
    looks_good=SmallShare(
        "bank_conflicts_load",
        "shared_load_wavefronts",
        "few bank conflicts in shared memory ({share:.0f} of the load wavefronts are repeats)",
        covers=("bank_conflicts_load",),
        misses=("bank_conflicts_ldgsts",),
        also=(("bank_conflicts_store", "shared_store_wavefronts"),),
    ),
    unlike={
        "atomic_contention": "Repeats of atomics on shared memory are counted apart: their "
        "threads access the same address, not just the same bank.",
        "pipe_saturated": "A saturated L1 or LSU pipe without repeats does needed work; only less "
        "of it helps.",
        "barrier_bound": "Waiting at barriers between phases is not waiting for shared memory, "
        "although both occur around tiles.",
    },
    remedies={
        when(origin.library_template): "Choose other thread-block and warp tiles, alignments or "
        "layouts of the operands in the template arguments of {library}: its layout of shared "
        "memory follows from them.",
        when(origin.library): "Choose another tile size, layout or algorithm of {library} for "
        "this call: the layout of its shared memory can't be changed.",
        when(origin.triton): "Try other block sizes and num_warps{here}, and avoid transposing a "
        "block between two operations: the compiler chooses the layout in shared memory from "
        "these.",
        when(on_chip.shared_atomics, name="atomics"): "Give each warp, or each few lanes, a copy "
        "of the counters in shared memory{here}, interleaved so that copies lie in different "
        "banks, and add the copies at the end.",
        when(on_chip.shared_index_from_data, name="data"): "The index comes from data{here}. If "
        "its values are multiples of a power of two, pad the table or swizzle its index with XOR. "
        "Otherwise keep several interleaved copies of the table, so that groups of lanes have "
        "banks of their own, or sort the work so that neighbouring threads read neighbours.",
        when(on_chip.rows_padded, name="padded"): "The rows are padded already{here}: swizzle the "
        "columns instead (XOR the column with the row), or assign the columns so that "
        "neighbouring threads access neighbouring words.",
        when(on_chip.rows_in_pieces, name="pieces"): "Let neighbouring threads access "
        "neighbouring pieces of the row{here}, half a row (or a quarter) apart for each thread. If "
        "the pieces have to stay with their threads, insert an unused word after each piece, or "
        "swizzle the index (XOR with the piece's number). Padding at the end of a row does "
        "not help.",
        when(on_chip.rows_even, name="pad"): "Pad each row of the shared array by one element, or "
        "swizzle its columns (XOR the column with the row), so that the threads of a warp fall "
        "into different banks{here}.",
        otherwise: "Change the layout of the shared array so that the threads of a warp fall into "
        "different banks{here}: an odd row length, columns swizzled by XOR with the row, or "
        "neighbouring threads on neighbouring words.",
    },
    edit=Edit(
        "Pad or swizzle the arrays in shared memory so that warps hit different banks", usual=13
    ),
)

_CONFLICTS = ("bank_conflicts_load", "bank_conflicts_store")
_WAVEFRONTS = ("shared_load_wavefronts", "shared_store_wavefronts")
_EXCESS, _EVERY = "src_shared_wavefronts_excess", "src_shared_wavefronts"
_CONFLICT_SHARE = ("bank_conflict_share", "shared wavefronts lost to bank conflicts")


def candidates(view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
    replayed, (conflicts, fronts) = replays(view, model), _wavefronts(view)
    if replayed and replayed.conflicts:
        yield Candidate(*replayed.conflicts, view.sampled_places, basis="assumed")
    if conflicts is None or fronts is None or not conflicts.value:
        return
    share = view.percent(*_CONFLICT_SHARE, conflicts, fronts)
    if share is None:
        return
    text = (
        "{share:.0f} of the {fronts}s of shared memory are repeats, because threads of a warp "
        "access different words in the same bank."
    )
    yield Candidate(
        Sentence(text, share=share, fronts=fronts),
        less_shared(model, min(1.0, share.value / 100), fronts.value),
        (share, conflicts, fronts),
        lambda: _places(view),
    )


def _places(view: LaunchView) -> tuple[Place, ...]:
    """The accesses; and the choice of the layout, if that is an argument of a template."""
    places = view.column_places("excess wavefronts", _EXCESS)
    return beside(places, *chosen_for(view, places))


def _wavefronts(view: LaunchView) -> tuple[Evidence | None, Evidence | None]:
    """Bank conflicts of loads and stores, and all of their wavefronts; without the memory tables,
    from the counters of single instructions."""
    conflicts = view.total("bank_conflicts", "shared-memory bank conflicts", *_CONFLICTS)
    fronts = view.total("shared_wavefronts", "shared-memory wavefronts", *_WAVEFRONTS)
    if conflicts is not None and fronts is not None:
        return conflicts, fronts
    plain = shared_addresses(view)
    if not plain:  # exports have the totals only
        has_totals_only = not view.by_address("memory_type")
        return (view.get(_EXCESS), view.get(_EVERY)) if has_totals_only else (None, None)
    label = "wavefronts of shared loads and stores"
    return (
        view.sum_over("load_store_conflicts", _EXCESS, plain, f"excess {label}"),
        view.sum_over("load_store_wavefronts", _EVERY, plain, label),
    )


def absent(view: LaunchView, _: TimeModel) -> Absence | None:
    others = ("ldmatrix", "ldgsts", "atomic")  # these accesses have their own conflict counters
    if any(view.value(f"bank_conflicts_{kind}") for kind in others):
        return None
    conflicts, fronts = _wavefronts(view)
    if conflicts is None or fronts is None or None in map(view.get, (*_CONFLICTS, *_WAVEFRONTS)):
        return None
    share = view.percent(*_CONFLICT_SHARE, conflicts, fronts)
    if share is None:
        return absence("The kernel does not access shared memory.", fronts=fronts)
    if share.value >= 100 * (1 - MOST_REMOVED):
        return None
    text = "{share:.1f} of the wavefronts of shared memory are bank conflicts."
    return absence(text, share=share, fronts=fronts)
