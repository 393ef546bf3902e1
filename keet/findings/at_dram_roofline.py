"""At the DRAM roofline."""

from __future__ import annotations

from keet.analysis.launch_view import LaunchView
from keet.analysis.remedy_conditions import global_memory, origin
from keet.analysis.roofline.launch_roofline import AT_CEILING, reached_roofline
from keet.analysis.time_model import ATTAINABLE_OTHER, PASSES_ON, WORTH, TimeModel
from keet.findings import Absence, Edit, FindingSpec, absence, otherwise, when

FINDING = FindingSpec(
    id="at_dram_roofline",
    family="healthy",
    label="at the DRAM roofline",
    meaning="DRAM runs near the bandwidth that it can reach, and keet sees no bytes that need not "
    "be moved.",
    how="No cause is expected to gain enough, none wastes the busiest unit, and the largest load "
    "is that of DRAM, or of L2 passing on the bytes of DRAM. DRAM delivers at least 80 % of what "
    "it can deliver; if L2 is busier, the geometric mean of both counts.",
    parameters=(AT_CEILING, WORTH, ATTAINABLE_OTHER),
    unlike={
        "redundant_traffic": "If addresses prove that bytes are read again, DRAM is busy with "
        "waste.",
        "at_compute_roofline": "The largest load is that of an arithmetic pipe or of the issue "
        "slots.",
    },
    remedies={
        when(origin.library_merge_sort): "Only moving fewer bytes helps: sort with "
        "cub::DeviceRadixSort, which makes fewer passes over the data than a merge sort.",
        when(origin.library_elementwise): "Only moving fewer bytes helps: fuse this operation "
        "with its neighbours (torch.compile), or use a narrower type.",
        when(origin.library): "Only moving fewer bytes helps: a routine of {library} that fuses "
        "several steps, a narrower type, or fewer calls.",
        when(global_memory.rereads_from_dram, name="reread"): "Only moving fewer bytes helps, and "
        "each byte is read several times{here}: finish all work on a piece of the data that fits "
        "into shared memory or L2 before the next, or fuse loops that read the same array.",
        when(global_memory.stores_only, name="stores"): "Only writing fewer bytes helps: let the "
        "kernel that uses these values compute them itself, or store a narrower type.",
        when(global_memory.reads_once_from_dram, name="once"): "Each byte is read once, so only a "
        "change of the computation moves fewer bytes: fuse the kernel with those before and after "
        "it, or store a narrower type.",
        otherwise: "Only moving fewer bytes would help: fuse the kernel with those before and "
        "after it, or store a narrower type.",
    },
    edit=Edit(
        "Leave it as it is: DRAM is near its peak, and every byte is moved only once", usual=22
    ),
)


def is_reached(model: TimeModel) -> bool:
    return reached_roofline(model) == "DRAM"


def absent(view: LaunchView, model: TimeModel) -> Absence | None:
    reached = view.ceilings.reached("DRAM")
    if reached is None or model.loads["DRAM"] >= PASSES_ON:
        return None
    text = "No unit of that roofline is near its peak (DRAM: {reached:.0f})."
    return absence(text, reached=reached)
