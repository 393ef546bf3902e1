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


def all_truths() -> dict[str, list[dict[str, str | int]]]:
    """The list of every kernel."""
    every: dict[str, list[dict[str, str | int]]] = {kernel: [] for kernel in SOURCE.kernels()}
    for planted in PLANTED:
        every[planted.kernel].append(
            {
                "load_line": SOURCE.line(planted.kernel, planted.load),
                "loop_line": SOURCE.line(planted.kernel, planted.loop),
                "array": planted.array,
                "times": planted.times,
                "bytes_per_block": planted.bytes_per_block,
                "entries": planted.entries,
            }
        )
    return every


def main() -> None:
    """Writes invariant_truth.json, one kernel per line."""
    lines = [f"{json.dumps(kernel)}: {json.dumps(told)}" for kernel, told in all_truths().items()]
    (HERE / "invariant_truth.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
