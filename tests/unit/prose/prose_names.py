"""Names that the tests of keet/prose resolve."""

from __future__ import annotations

from keet.evidence import Evidence, constant
from keet.evidence.free_numbers import Allowed
from keet.prose.reading import Names

SOURCE = """
#define TILE 32
__global__ void flip(const float* in, float* out, int n, float x82) {  // reaches 99 % of peak
    const int x = blockIdx.x * TILE + threadIdx.x;  /* dram = 97.31 */
    out[x * n + 7] = in[x] * 0.25f;
}
"""
ALLOWED = Allowed(
    SOURCE, frozenset({7.0, 32.0, 0.25}), names=frozenset({"NVIDIA H200"}), lines={"flip.cu": 6}
)
_ROWS = [
    ("l2_hit_rate_pct", 89.2, "%", "L2 Hit Rate", None),
    ("l2_busy", 83.1, "%", "L2 busy", None),
    ("crossbar_busy", 83.1, "%", "Crossbar busy", None),
    ("dram_busy", 11.5, "%", "DRAM busy", None),
    ("dram_bytes", 292_313_344.0, "byte", "DRAM Bytes Read", None),
    ("duration", 1_020_448.0, "ns", "Duration", None),
    ("cycles", 2_020_445.0, "cycle", "Elapsed Cycles", None),
    ("sectors", 67_130_318.0, "sector", "Store Sectors", None),
    ("requests", 2_097_152.0, "request", "Store Requests", None),
    ("bytes_per_sector", 4.0, "byte/sector", "Bytes Per Sector", None),
    ("ipc", 0.18, "inst/cycle", "Executed IPC", None),
    ("threads", 1024, "thread", "Threads", None),
    ("conflicts", 0.0, "conflict", "Bank Conflicts", None),
    ("samples_share@flip.cu:5", 61.0, "%", "Samples", "flip.cu:5"),
]


def names(**facts: float) -> Names:
    pieces = (
        (name, Evidence(f"{name}#0", name, value, unit, label, line))
        for name, value, unit, label, line in _ROWS
    )
    known = {"N": constant(8192, "", "`N`"), "SIZE": constant(4096, "byte", "SIZE")}
    return Names(
        pieces, known | {n: constant(v, "", n) for n, v in facts.items()}, frozenset({7.0})
    )
