"""Which loads of invariant.cu read the same in every iteration of a loop, from its source.

Written to invariant_truth.json: kernel -> list (empty for kernels that only seem to).

load_line       source line of the load
loop_line       head of the outermost loop in which neither the load's addresses nor values change
array           pointer parameter
times           iterations of that loop per entry, the same for all warps
bytes_per_block distinct bytes that one block reads in one iteration of that loop
entries         entries of that loop by one warp: more than one where another loop encloses it
"""

import json
from typing import NamedTuple

from evals.amounts.sources import HERE, Source

SOURCE = Source(HERE / "invariant.cu")
N = SOURCE.sizes


class Planted(NamedTuple):
    """One load: texts of its line and of the loop's head, and its amounts."""

    kernel: str
    load: str
    loop: str
    array: str
    times: int
    bytes_per_block: int
    entries: int = 1


PLANTED = [
    Planted(
        "topic_scores",
        "sum = sum * x + weight",
        "for (int s",
        "weight",
        N["SAMPLES"],
        4 * N["TOPICS"] * N["THREADS"],
    ),
    Planted(
        "filter_times",
        "sum = sum * input + coefficient",
        "for (int t",
        "coefficient",
        N["TIMES"],
        4 * N["ORDER"],
    ),
    Planted(
        "decode_frames", "book[e] = codebook", "for (int f", "codebook", N["FRAMES"], 4 * N["CODES"]
    ),
    Planted("scale_columns", "factor[0]", "for (int row", "factor", N["SCALE_ROWS"], 4),
    Planted("shift_groups", "+= offset", "for (int row", "offset", N["SHIFT_ROWS"], 4),
    Planted(
        "layer_lines",
        "sum += taps",
        "for (int line",
        "taps",
        N["LINES"],
        4 * N["WIDTH"],
        N["LAYERS"],
    ),
    Planted(
        "bounded_walk",
        "limit = bound",
        "for (int step",
        "bound",
        N["WALK_STEPS"],
        4 * N["WALKERS"],
    ),
    Planted(
        "nearest_codes",
        "apart = centre",
        "for (int i",
        "centre",
        N["CODES_EACH"],
        4 * N["CENTRES"] * N["BITS"],
    ),
    Planted(
        "group_motion", "pull += mass", "for (int step", "mass", N["MOTION_STEPS"], 8 * N["BODIES"]
    ),
    Planted("mask_channels", "& mask", "for (int channel", "mask", N["CHANNELS"], N["MASK_TILE"]),
]


def truths(source: Source, every: list[Planted]) -> dict[str, list[dict[str, str | int]]]:
    """The list of every kernel."""
    found: dict[str, list[dict[str, str | int]]] = {kernel: [] for kernel in source.kernels()}
    for planted in every:
        found[planted.kernel].append(
            {
                "load_line": source.line(planted.kernel, planted.load),
                "loop_line": source.line(planted.kernel, planted.loop),
                "array": planted.array,
                "times": planted.times,
                "bytes_per_block": planted.bytes_per_block,
                "entries": planted.entries,
            }
        )
    return found


def write(name: str, source: Source, every: list[Planted]) -> None:
    """Writes NAME_truth.json, one kernel per line."""
    told = truths(source, every).items()
    lines = [f"{json.dumps(kernel)}: {json.dumps(loads)}" for kernel, loads in told]
    (HERE / f"{name}_truth.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    write("invariant", SOURCE, PLANTED)
