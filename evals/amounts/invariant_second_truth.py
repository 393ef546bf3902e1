"""Which loads of the held-out invariant_second.cu read the same in every iteration of a loop.

Written to invariant_second_truth.json, in the form that invariant_truth.py explains.
"""

import json

from evals.amounts.invariant_truth import Planted
from evals.amounts.sources import HERE, Source

SOURCE = Source(HERE / "invariant_second.cu")
N = SOURCE.sizes

PLANTED = [
    Planted("amplify", "cfg->gain", "for (int f", "cfg", N["FRAMES"], 4),
    Planted(
        "correlate_shifts", "acc += pattern", "for (int s", "pattern", N["SHIFTS"], 2 * N["TAPS"]
    ),
    Planted("react", "k = rate", "for (int n", "rate", N["REACT_STEPS"], 4 * N["SPECIES"]),
    Planted(
        "panels_product",
        "[d] = left",
        "for (int p",
        "left",
        N["PANEL_COLS"] // N["PANEL"],
        4 * N["PANEL"] * N["PANEL_DEPTH"],
    ),
    Planted(
        "reorder_planes",
        "perm[i]",
        "for (unsigned long long p",
        "perm",
        N["PLANES"],
        4 * N["THREADS"],
    ),
    Planted(
        "band_many",
        "acc += diag",
        "for (int r",
        "diag",
        N["SIDES"],
        8 * N["BANDS"] * N["THREADS"],
    ),
    Planted("lens_phase", "= row", "for (int c", "plate", N["COLOURS"], 4 * 128),
    Planted("dequantise", "scale[c", "while (t", "scale", N["TOKENS"], 4 * (N["CHANNELS"] // 32)),
    Planted(
        "frame_energy", "* window[t", "for (int f", "window", N["ENERGY_FRAMES"], 4 * N["FRAME"]
    ),
    Planted("heated_line", "+ source", "for (int s", "source", N["HEAT_STEPS"], 4 * N["THREADS"]),
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
    """Writes invariant_second_truth.json, one kernel per line."""
    lines = [f"{json.dumps(kernel)}: {json.dumps(told)}" for kernel, told in all_truths().items()]
    (HERE / "invariant_second_truth.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
