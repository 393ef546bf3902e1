"""The amounts of work of the held-out known_second.cu, by formulas from its source.

Written to known_second_truth.json, in the form that known_truth.py explains. Pointers in a struct
are named `parameter.member`. second_truth.py compares all of it with the emulation.

Left out is what the compiler may change: the operations of lu_small and causal_attention (a
division or exponential has as many as the library likes) and of conv_cube (additions under a
condition may be done by all lanes).
"""

import json
from collections.abc import Callable, Mapping

import numpy as np

from evals.amounts.known_truth import Truth, array, loop, mix, over, per_warp, same, strided
from evals.amounts.sources import HERE, Source

SOURCE = Source(HERE / "known_second.cu")
N = SOURCE.sizes
TRUTHS: dict[str, Callable[[], Truth]] = {}


def truth(kernel: Callable[[], Truth]) -> Callable[[], Truth]:
    """Registers the truth of the kernel of the same name."""
    TRUTHS[kernel.__name__] = kernel
    return kernel


@truth
def leapfrog() -> Truth:
    """Each element once; two products and two sums."""
    n, blocks, threads = N["SWARM_N"], N["SWARM_BLOCKS"], N["SWARM_THREADS"]
    return {
        "arrays": {
            "s.pos": array(n, 8, loaded=n, stored=n),
            "s.vel": array(n, 8, loaded=n, stored=n),
            "s.acc": array(n, 8, loaded=n),
        },
        "loops": {"for (size_t i": loop(per_warp(strided(n, blocks * threads), threads))},
        "fp64": 4 * n,
    }


@truth
def blurRowsPitched() -> Truth:  # noqa: N802
    """Each block reads its part of a row and the halo on both sides."""
    width, height, side, r = N["ROWS_W"], N["ROWS_H"], N["SEP_W"], N["ROWS_R"]
    blocks, taps, n = over(width, side) * height, 2 * r + 1, width * height
    fill = strided(side + 2 * r, side)
    return {
        "arrays": {
            "src": array(n, 4, loaded=blocks * (side + 2 * r)),
            "dst": array(n, 4, stored=n),
            "taps": array(taps, 4, loaded=taps * n),
        },
        "loops": {
            "for (int s": loop(per_warp(fill, side), repeat=blocks, unroll=1),
            "for (int k": same(taps, over(width, 32) * height, unroll="full"),
        },
        "fp32": 2 * taps * n,
    }


@truth
def blurColumns() -> Truth:  # noqa: N802
    """Nine loads per result, at the borders some of the same place; taps are in constant memory."""
    width, height, taps = N["COLS_W"], N["COLS_H"], N["COL_TAPS"]
    n = width * height
    return {
        "arrays": {"src": array(n, 4, loaded=taps * n), "dst": array(n, 4, stored=n)},
        "loops": {"for (unsigned k": same(taps, over(width, 32) * height, unroll="full")},
        "fp32": 2 * taps * n,
    }


@truth
def dft_table() -> Truth:
    """All samples for each frequency; frequency 1 goes through the whole table."""
    n, batch, threads = N["DFT_N"], N["DFT_BATCH"], N["DFT_THREADS"]
    steps = batch * n * n
    warps = (n // threads * threads + over(n % threads, 32) * 32) // 32
    return {
        "arrays": {
            "signal": array(batch * n, 8, loaded=steps),
            "root": array(n, 8, loaded=steps),
            "spectrum": array(batch * n, 8, stored=batch * n),
        },
        "loops": {"for (unsigned t": same(n, batch * warps)},
        "fp32": 8 * steps,
    }


@truth
def sort_by_shuffles() -> Truth:
    """Each key once."""
    n = N["WARP_KEYS"]
    return {
        "arrays": {"keys": array(n, 8, loaded=n, stored=n)},
        "loops": {
            "for (int size": same(5, n // 32, unroll="full"),
            "for (int hop": loop([1, 2, 3, 4, 5], repeat=n // 32, unroll="full"),
        },
    }


@truth
def band_align() -> Truth:
    """One byte of each sequence per step, and the first bytes of the band before."""
    pairs, seq, band = N["PAIRS"], N["SEQ"], N["BAND_W"]
    lengths = seq // 2 + mix(np.arange(pairs) + 13).astype(np.int64) % (seq // 2 + 1)
    steps, longest = int(lengths.sum()), per_warp(lengths, 96)
    longest = longest[longest >= 0]
    inside, read = int(longest.sum()), steps + (band - 1) * pairs
    return {
        "arrays": {
            "query": array(steps, 1, loaded=steps),
            "target": array(read, 1, loaded=read),
            "lengths": array(pairs, 2, loaded=pairs),
            "best": array(pairs, 4, stored=pairs),
        },
        "loops": {
            "for (int k": same(band + 1, len(longest), unroll="full"),
            "for (int k#2": same(band - 1, len(longest), unroll="full"),
            "for (int i": loop(longest, unroll=1),
            "for (int k#3": same(band, inside, unroll="full"),
            "for (int k#4": same(band - 1, inside, unroll="full"),
        },
    }


@truth
def ell_spmv() -> Truth:
    """Columns up to and with the first -1; values before it."""
    rows, width, sides = N["ELL_ROWS"], N["ELL_WIDTH"], N["ELL_RHS"]
    length = mix(np.arange(rows) + 14).astype(np.int64) % (width + 1)
    steps = np.minimum(length + 1, width)
    row, j = np.nonzero(np.arange(width)[None, :] < length[:, None])
    used = len(np.unique(mix(row * width + j + 15) % np.uint32(rows)))
    entries, read = int(length.sum()), int(steps.sum())
    return {
        "arrays": {
            "vals": array(entries, 8, loaded=entries * sides),
            "cols": array(read, 4, loaded=read * sides),
            "x": array(used * sides, 8, loaded=entries * sides),
            "y": array(rows * sides, 8, stored=rows * sides),
        },
        "loops": {"for (int j": loop(per_warp(steps, 128), repeat=sides, unroll=1)},
        "fp64": 2 * entries * sides,
    }


@truth
def lu_small() -> Truth:
    """Each element is read once and written once; no loop is left."""
    order, batch = N["LU_N"], N["LU_BATCH"]
    n, warps = order * order * batch, over(batch, 32)
    rest = list(range(order))
    return {
        "arrays": {"mats": array(n, 4, loaded=n), "factors": array(n, 4, stored=n)},
        "loops": {
            "for (int e": same(order * order, warps, unroll="full"),
            "for (int k": same(order, warps, unroll="full"),
            "for (int i": loop(rest, repeat=warps, unroll="full"),
            "for (int j": loop([k for k in rest for _ in range(k)], repeat=warps, unroll="full"),
            "for (int e#2": same(order * order, warps, unroll="full"),
        },
    }


@truth
def quarter_circle() -> Truth:
    """Two seeds per thread, one atomic per warp."""
    blocks, threads, rounds = N["DART_BLOCKS"], N["DART_THREADS"], N["DART_ROUNDS"]
    warps = blocks * threads // 32
    return {
        "arrays": {
            "seeds": array(blocks * threads, 8, loaded=blocks * threads),
            "inside": array(blocks, 8, atomic=warps),
        },
        "loops": {
            "for (int r": same(rounds, warps),
            "for (int d": same(5, warps, unroll="full"),
        },
    }


@truth
def rgb_to_yuva() -> Truth:
    """Three bytes in and four out for each pixel; the ends of rows are not touched."""
    n = N["YUV_W"] * N["YUV_H"]
    return {
        "arrays": {"rgb": array(n, 3, loaded=n), "yuva": array(n, 4, stored=n)},
        "loops": {},
    }


@truth
def moving_totals() -> Truth:
    """A whole window for the first result of a chunk, two loads for each other."""
    results, window, chunk = N["WIN_RESULTS"], N["WIN_SIZE"], N["WIN_CHUNK"]
    chunks = over(results, chunk)
    size = np.minimum(chunk, results - chunk * np.arange(chunks))
    return {
        "arrays": {
            "in": array(
                results + window - 1, 2, loaded=chunks * window + 2 * int((size - 1).sum())
            ),
            "out": array(results, 4, stored=results),
        },
        "loops": {
            "for (unsigned k": same(window, over(chunks, 32)),
            "for (unsigned i": loop(per_warp(size - 1, 128)),
        },
    }


@truth
def causal_attention() -> Truth:
    """Query i reads the keys and values 0 to i."""
    length, heads = N["ATT_LEN"], N["ATT_HEADS"]
    n, steps = heads * length * 32, heads * length * (length + 1) // 2
    return {
        "arrays": {
            "q": array(n, 8, loaded=n),
            "k": array(n, 8, loaded=steps * 32),
            "v": array(n, 8, loaded=steps * 32),
            "o": array(n, 8, stored=n),
        },
        "loops": {
            "for (int j": loop(np.arange(length) + 1, repeat=heads),
            "for (int d": same(5, steps, unroll="full"),
        },
    }


@truth
def scatter_rows() -> Truth:
    """Places are a permutation; only the first lane reads one."""
    rows, cols = N["SCAT_ROWS"], N["SCAT_COLS"]
    warps = N["SCAT_BLOCKS"] * N["SCAT_THREADS"] // 32
    return {
        "arrays": {
            "in": array(rows * cols, 4, loaded=rows * cols),
            "place": array(rows, 4, loaded=rows),
            "out": array(rows * cols, 4, stored=rows * cols),
        },
        "loops": {
            "for (unsigned r": loop(strided(rows, warps)),
            "for (unsigned c": same(over(cols, 32), rows, unroll=1),
        },
    }


@truth
def relax_colour() -> Truth:
    """Cells with y + x even, and their four neighbours."""
    nx, ny = N["RB_NX"], N["RB_NY"]
    y, x = np.mgrid[0 : ny + 2, 0 : nx + 2]
    own = (x >= 1) & (x <= nx) & (y >= 1) & (y <= ny) & ((x + y) % 2 == 0)
    touched = own.copy()
    for axis, step in ((0, 1), (0, -1), (1, 1), (1, -1)):
        touched |= np.roll(own, step, axis)
    cells = int(own.sum())
    return {
        "arrays": {
            "u": array(
                int(touched.sum()), 4, loaded=4 * cells, stored=cells, elements_stored=cells
            ),
            "f": array(cells, 4, loaded=cells),
        },
        "loops": {},
        "fp32": 5 * cells,
    }


@truth
def running_sums4() -> Truth:
    """Each four elements once; warp w adds up the w totals before it."""
    blocks, threads = N["SUMS_BLOCKS"], N["SUMS_BLOCK"]
    n, warps = blocks * threads, threads // 32
    return {
        "arrays": {
            "in": array(n, 16, loaded=n),
            "out": array(n, 16, stored=n),
            "block_total": array(blocks, 4, stored=blocks),
        },
        "loops": {
            "for (int d": same(5, blocks * warps, unroll="full"),
            "for (int w": loop(np.arange(warps), repeat=blocks, unroll=1),
        },
    }


@truth
def mandel_fixed() -> Truth:
    """The steps of every pixel, by doing them in whole numbers."""
    width, height, limit, one = N["MANDEL_W"], N["MANDEL_H"], N["MANDEL_LIMIT"], 1 << 24
    down, across = over(height, 8), over(width, 16)
    y, x = (a.astype(np.int64) for a in np.mgrid[0 : down * 8, 0 : across * 16])
    cr, ci = -2 * one + 3 * one * x // width, -one + 2 * one * y // height
    zr, zi, rr, ii, steps = (np.zeros_like(x) for _ in range(5))
    outside = (x >= width) | (y >= height)
    for _ in range(limit):
        going = rr + ii <= 4 * one
        zi = np.where(going, ((zr * zi) >> 23) + ci, zi)
        zr = np.where(going, rr - ii + cr, zr)
        rr, ii = (zr * zr) >> 24, (zi * zi) >> 24
        steps += going
    steps[outside] = -1
    # A warp has two rows of sixteen pixels.
    blocks = steps.reshape(down, 4, 2, across, 16).transpose(0, 3, 1, 2, 4)
    return {
        "arrays": {"steps": array(width * height, 2, stored=width * height)},
        "loops": {"while (n": loop(blocks.reshape(-1, 32).max(axis=1), unroll=1)},
    }


@truth
def conv_cube() -> Truth:
    """Neighbours outside the volume are not read."""
    nx, ny, nz = N["CUBE_NX"], N["CUBE_NY"], N["CUBE_NZ"]
    n, warps = nx * ny * nz, over(nx, 32) * ny * nz
    taps = (3 * nx - 2) * (3 * ny - 2) * (3 * nz - 2)
    return {
        "arrays": {"in": array(n, 1, loaded=taps), "out": array(n, 4, stored=n)},
        "loops": {
            "for (int dz": same(3, warps, unroll="full"),
            "for (int dy": same(3, 3 * warps, unroll="full"),
            "for (int dx": same(3, 9 * warps, unroll="full"),
        },
    }


@truth
def ring_delay() -> Truth:
    """A slot is read and written in every step."""
    channels, slots, times = N["RING_CH"], N["RING_SLOTS"], N["RING_TIMES"]
    n = channels * times
    return {
        "arrays": {
            "x": array(n, 4, loaded=n),
            "ring": array(channels * slots, 4, loaded=n, stored=n),
            "y": array(n, 4, stored=n),
        },
        "loops": {"for (int t": same(times, over(channels, 32), unroll=1)},
        "fp32": 3 * n,
    }


@truth
def life_step() -> Truth:
    """Nine bytes for each cell."""
    n = N["LIFE_W"] * N["LIFE_H"]
    return {
        "arrays": {"now": array(n, 1, loaded=9 * n), "next": array(n, 1, stored=n)},
        "loops": {},
    }


@truth
def crc_records() -> Truth:
    """One byte and one word of the table per step; so many bytes reach the whole table."""
    records = N["CRC_RECORDS"]
    lengths = N["CRC_LEAST"] + mix(np.arange(records) + 35).astype(np.int64) % N["CRC_SPREAD"]
    total = int(lengths.sum())
    return {
        "arrays": {
            "bytes": array(total, 1, loaded=total),
            "start": array(records + 1, 8, loaded=2 * records),
            "table": array(256, 4, loaded=total),
            "crc": array(records, 4, stored=records),
        },
        "loops": {"for (unsigned long long at": loop(per_warp(lengths, 64))},
    }


@truth
def gemv_batched() -> Truth:
    """A matrix once, its vector once per row."""
    rows, quads, batch = N["GEMV_ROWS"], N["GEMV_QUADS"], N["GEMV_BATCH"]
    n = batch * rows * quads
    return {
        "arrays": {
            "mat": array(n, 16, loaded=n),
            "vec": array(batch * quads, 16, loaded=n),
            "res": array(batch * rows, 4, stored=batch * rows),
        },
        "loops": {
            "lane_dot: for (int e": same(over(quads, 32), batch * rows),
            "for (int d": same(5, batch * rows, unroll="full"),
        },
        "fp32": 8 * n + 5 * 32 * batch * rows,
    }


@truth
def nearest_site() -> Truth:
    """Each block reads all sites; threads beyond the points work too."""
    points, n, tile, threads = N["SITE_POINTS"], N["SITE_N"], N["SITE_TILE"], N["SITE_THREADS"]
    blocks = over(points, threads)
    warps = blocks * threads // 32
    sizes = [min(tile, n - base) for base in range(0, n, tile)]
    fill = np.concatenate([per_warp(strided(size, threads), threads) for size in sizes])
    return {
        "arrays": {
            "pts": array(points, 8, loaded=points),
            "sites.x": array(n, 4, loaded=blocks * n),
            "sites.y": array(n, 4, loaded=blocks * n),
            "who": array(points, 4, stored=points),
        },
        "loops": {
            "for (int base": same(len(sizes), warps, barriers=2),
            "for (int s": loop(fill, repeat=blocks),
            "for (int s#2": loop(sizes, repeat=warps),
        },
        "fp32": 5 * n * blocks * threads,
    }


def write(program: str, source: Source, truths: Mapping[str, Callable[[], Truth]]) -> None:
    """Writes a program's truth, one kernel per line, its loops by source line."""
    lines = []
    for kernel in source.kernels():
        told = truths[kernel]()
        loops = {}
        for head, amounts in told["loops"].items():
            where, _, text = head.rpartition(": ")
            text, _, nth = text.partition("#")
            loops[str(source.line(where or kernel, text, int(nth or 1)))] = amounts
        item = max(amounts["elements_stored"] for amounts in told["arrays"].values())
        every = {"item": item, **told, "loops": loops}
        lines.append(f"{json.dumps(kernel)}: {json.dumps(every)}")
    (HERE / f"{program}_truth.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main() -> None:
    """Writes known_second_truth.json."""
    write("known_second", SOURCE, TRUTHS)


if __name__ == "__main__":
    main()
