"""Which loads of the held-out invariant_second.cu read the same in every iteration of a loop.

Written to invariant_second_truth.json, in the form that invariant_truth.py explains.
"""

from evals.amounts.invariant_truth import Planted, write
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


def main() -> None:
    write("invariant_second", SOURCE, PLANTED)


if __name__ == "__main__":
    main()
