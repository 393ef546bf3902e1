"""The amounts of work of the held-out known_third.cu, by formulas from its source.

Written to known_third_truth.json, in the form that known_truth.py explains. Pointers in a struct
are named `parameter.member`. `second_truth.py third` compares all of it with the emulation.

Operations are left out where the compiler or the library decides their number: divisions, roots
and exponentials, sums under a condition, atomics, differences of bytes, negations.
"""

import numpy as np

from evals.amounts.known_second_truth import write
from evals.amounts.known_truth import Truth, array, loop, mix, over, per_warp, same, strided
from evals.amounts.sources import HERE, Source

SOURCE = Source(HERE / "known_third.cu")
N = SOURCE.sizes


def layer_norm_fwd() -> Truth:
    """Three passes over each row; the block is summed twice."""
    rows, cols, threads = N["LN_ROWS"], N["LN_COLS"], N["LN_THREADS"]
    n, warps = rows * cols, rows * threads // 32
    row = loop(per_warp(strided(cols, threads), threads), repeat=rows)
    return {
        "arrays": {
            "x": array(n, 4, loaded=3 * n),
            "gamma": array(cols, 4, loaded=n),
            "beta": array(cols, 4, loaded=n),
            "y": array(n, 4, stored=n),
            "mean_out": array(rows, 4, stored=rows),
            "rstd_out": array(rows, 4, stored=rows),
        },
        "loops": {
            "block_sum: for (int o": same(5, 2 * warps, unroll="full"),
            "block_sum: for (int o#2": same(5, 2 * rows, unroll="full"),
            "for (int c": row,
            "for (int c#2": row,
            "for (int c#3": row,
        },
    }


def bias_gelu() -> Truth:
    """One element and its column's bias per step."""
    n, blocks, threads = N["GELU_N"], N["GELU_BLOCKS"], N["GELU_THREADS"]
    return {
        "arrays": {
            "in": array(n, 2, loaded=n),
            "bias": array(N["GELU_COLS"], 2, loaded=n),
            "out": array(n, 2, stored=n),
        },
        "loops": {"for (int i": loop(per_warp(strided(n, blocks * threads), threads))},
    }


def conv2d_direct() -> Truth:
    """Taps inside the image; a warp has two rows of sixteen results."""
    images, channels, filters = N["CV_N"], N["CV_C"], N["CV_K"]
    tap = np.arange(3)

    def inside(results: int, size: int) -> list[int]:
        place = np.arange(results)[:, None] * N["CV_S"] - N["CV_PAD"] + tap
        return [int(c) for c in ((place >= 0) & (place < size)).sum(axis=1)]

    rows, columns = inside(N["CV_OH"], N["CV_H"]), inside(N["CV_OW"], N["CV_W"])
    taps = sum(rows) * sum(columns) * channels * filters * images
    results = N["CV_OH"] * N["CV_OW"] * filters * images
    across = over(N["CV_OW"], 16) * filters * images
    warps = across * over(N["CV_OH"], 2)
    entered = sum(max(rows[y : y + 2]) for y in range(0, N["CV_OH"], 2)) * across * channels
    # Three taps at a stride of two reach every pixel.
    pixels = images * channels * N["CV_H"] * N["CV_W"]
    weights = filters * channels * 9
    return {
        "arrays": {
            "in": array(pixels, 4, loaded=taps),
            "weight": array(weights, 4, loaded=taps),
            "bias": array(filters, 4, loaded=results),
            "out": array(results, 4, stored=results),
        },
        "loops": {
            "for (int c": same(channels, warps),
            "for (int r": same(3, warps * channels, unroll="full"),
            "for (int s": same(3, entered, unroll="full"),
        },
    }


def MaxPoolForward() -> Truth:  # noqa: N802
    """Windows of three by three, two at the last row and column."""
    planes, size, results = N["POOL_PLANES"], N["POOL_IN"], N["POOL_OUT"]
    n, threads = planes * results * results, N["POOL_THREADS"]
    index = np.arange(n)
    down, across = (
        np.minimum(N["POOL_K"], size - N["POOL_S"] * place)
        for place in (index // results % results, index % results)
    )
    rows = [per_warp(np.where(down > e, across, -1), threads) for e in range(N["POOL_K"])]
    return {
        "arrays": {
            "bottom_data": array(planes * size * size, 4, loaded=int((down * across).sum())),
            "top_data": array(n, 4, stored=n),
            "mask": array(n, 4, stored=n),
        },
        "loops": {
            "for (int index": loop(per_warp(strided(n, over(n, threads) * threads), threads)),
            "for (int h": loop(per_warp(down, threads)),
            "for (int w": loop(np.concatenate(rows)),
        },
    }


def sgemm_2d_tile() -> Truth:
    """Each tile of A is read by every column of blocks, of B by every row of blocks."""
    m, n, depth, tile, step, t = (
        N[name] for name in ("MM_M", "MM_N", "MM_K", "MM_B", "MM_BK", "MM_T")
    )
    threads = tile * tile // (t * t)
    warps, steps = m * n // (t * t) // 32, depth // step
    return {
        "arrays": {
            "A": array(m * depth, 4, loaded=m * depth * (n // tile)),
            "B": array(depth * n, 4, loaded=depth * n * (m // tile)),
            "C": array(m * n, 4, loaded=m * n, stored=m * n),
        },
        "loops": {
            "for (int bkIdx": same(steps, warps, barriers=2),
            "for (int loadOffset": same(tile * step // threads, warps * steps),
            "for (int loadOffset#2": same(tile * step // threads, warps * steps),
            "for (int dotIdx": same(step, warps * steps),
            "for (int i": same(t, warps * depth),
            "for (int i#2": same(t, warps * depth),
            "for (int resIdxM": same(t, warps * depth),
            "for (int resIdxN": same(t, warps * depth * t),
            "for (int resIdxM#2": same(t, warps),
            "for (int resIdxN#2": same(t, warps * t),
        },
        "fp32": 2 * m * n * depth + 3 * m * n,
    }


def hwc_to_chw() -> Truth:
    """Two products and a difference per byte."""
    width, height, images = N["CHW_W"], N["CHW_H"], N["CHW_N"]
    n = 3 * width * height * images
    return {
        "arrays": {"hwc": array(n, 1, loaded=n), "chw": array(n, 4, stored=n)},
        "loops": {"for (int c": same(3, over(width, 32) * height * images, unroll="full")},
        "fp32": 3 * n,
    }


def lbm_d2q9() -> Truth:
    """Nine numbers in and out per cell; each is read by one cell."""
    n = N["LBM_NX"] * N["LBM_NY"]
    return {
        "arrays": {
            "fin": array(9 * n, 4, loaded=9 * n),
            "fout": array(9 * n, 4, stored=9 * n),
            "solid": array(n, 1, loaded=n),
        },
        "loops": {},
    }


def wave_step() -> Truth:
    """A column per thread and, in each plane, four cells beyond each side of the tile."""
    nx, ny, nz, bx, by, r = (
        N[name] for name in ("FD_NX", "FD_NY", "FD_NZ", "FD_BX", "FD_BY", "FD_R")
    )
    blocks, warps, n = nx // bx * (ny // by), nx * ny // 32, nx * ny * nz
    columns = nx * ny * (nz + 2 * r)
    return {
        "arrays": {
            "p_next": array(n, 4, loaded=n, stored=n),
            "p_now": array(
                columns + 2 * r * (nx + ny) * nz,
                4,
                loaded=columns + blocks * nz * 2 * r * (bx + by),
            ),
            "vel2": array(n, 4, loaded=n),
        },
        "loops": {
            "for (int i": same(r - 1, warps, unroll="full"),
            "for (int i#2": same(r, warps, unroll="full"),
            "for (int iz": same(nz, warps, barriers=2),
            "for (int i#3": same(r - 1, warps * nz, unroll="full"),
            "for (int i#4": same(r - 1, warps * nz, unroll="full"),
            "for (int i#5": same(r, warps * nz, unroll="full"),
        },
        "fp32": (1 + 7 * r + 4) * n,
    }


def gray_scott() -> Truth:
    """Five loads per field; two Laplacians of 5 operations, a product of 2, then 7 and 6."""
    n = N["GS_W"] * N["GS_H"]
    return {
        "arrays": {
            "u": array(n, 8, loaded=5 * n),
            "v": array(n, 8, loaded=5 * n),
            "u_new": array(n, 8, stored=n),
            "v_new": array(n, 8, stored=n),
        },
        "loops": {},
        "fp64": 25 * n,
    }


def spmv_csr_vector() -> Truth:
    """A warp per row; all its lanes read where the row starts and ends."""
    rows = N["CSR_ROWS"]
    lengths = mix(np.arange(rows) + 21).astype(np.int64) % N["CSR_MOST"]
    entries = int(lengths.sum())
    used = len(np.unique(mix(np.arange(entries) + 22) % np.uint32(N["CSR_COLS"])))
    return {
        "arrays": {
            "Ap": array(rows + 1, 4, loaded=2 * 32 * rows),
            "Aj": array(entries, 4, loaded=entries),
            "Ax": array(entries, 8, loaded=entries),
            "x": array(used, 8, loaded=entries),
            "y": array(rows, 8, stored=rows),
        },
        "loops": {
            "for (IndexType jj": loop(-(-lengths // 32)),
            "for (int delta": same(5, rows, unroll="full"),
        },
        "fp64": 2 * entries + 5 * 32 * rows,
    }


def deposit_charge() -> Truth:
    """Four atomics per particle."""
    n, nx, ny = N["PIC_N"], N["PIC_NX"], N["PIC_NY"]
    # Coordinates are hashes of 12 bits, times the size of the grid.
    i, j = (
        (mix(np.arange(n) + seed) >> np.uint32(20)).astype(np.int64) * size >> 12
        for seed, size in ((25, nx), (26000003, ny))
    )
    nodes = [(j + dj) % ny * nx + (i + di) % nx for dj in (0, 1) for di in (0, 1)]
    return {
        "arrays": {
            "pl.x": array(n, 8, loaded=n),
            "pl.y": array(n, 8, loaded=n),
            "pl.rho": array(len(np.unique(nodes)), 8, atomic=4 * n),
        },
        "loops": {},
    }


def lj_force() -> Truth:
    """Each atom reads itself and its neighbours, who are among the next ones."""
    n, least, most = N["LJ_N"], N["LJ_LEAST"], N["LJ_MOST"]
    number = least + mix(np.arange(n) + 27).astype(np.int64) % (most - least + 1)
    entries = int(number.sum())
    return {
        "arrays": {
            "pos": array(n, 16, loaded=n + entries),
            "num_neigh": array(n, 4, loaded=n),
            "neighbors": array(entries, 4, loaded=entries),
            "force": array(n, 16, stored=n),
        },
        "loops": {"for (int jj": loop(per_warp(number, N["LJ_THREADS"]))},
    }


def BlackScholesGPU() -> Truth:  # noqa: N802
    """Three numbers in and two out per option."""
    n = N["BS_N"]
    read, written = array(n, 4, loaded=n), array(n, 4, stored=n)
    return {
        "arrays": {
            "d_CallResult": written,
            "d_PutResult": written,
            "d_StockPrice": read,
            "d_OptionStrike": read,
            "d_OptionYears": read,
        },
        "loops": {},
    }


def needleman() -> Truth:
    """All antidiagonals, a barrier after each."""
    pairs, length = N["NW_PAIRS"], N["NW_LEN"]
    n, cells = pairs * length, pairs * length * length
    return {
        "arrays": {
            "seq_a": array(n, 1, loaded=n),
            "seq_b": array(n, 1, loaded=n),
            "trace": array(cells, 1, stored=cells),
            "score": array(pairs, 4, stored=pairs),
        },
        "loops": {"for (int d": same(2 * length - 1, n // 32, barriers=1)},
    }


def bfs_level() -> Truth:
    """Nodes of the frontier read their edges; edges to nodes not visited are stored twice."""
    n = N["BFS_N"]
    node = np.arange(n)
    degree = 1 + mix(node + 35).astype(np.int64) % N["BFS_DEGREE"]
    front = mix(node + 36) % 6 == 0
    visited = front | (mix(node + 37) % 3 == 0)
    target = mix(np.arange(degree.sum()) + 38).astype(np.int64) % n
    reached = target[np.repeat(front, degree)]
    fresh = reached[~visited[reached]]
    fronts, new = int(front.sum()), len(np.unique(fresh))
    return {
        "arrays": {
            "g_nodes": array(fronts, 8, loaded=fronts),
            "g_edges": array(len(reached), 4, loaded=len(reached)),
            "g_mask": array(n, 1, loaded=n, stored=fronts, elements_stored=fronts),
            "g_updating": array(new, 1, stored=len(fresh)),
            "g_visited": array(len(np.unique(reached)), 1, loaded=len(reached)),
            "g_cost": array(fronts + new, 4, loaded=fronts, stored=len(fresh), elements_stored=new),
        },
        "loops": {"for(int i": loop(per_warp(np.where(front, degree, -1), N["BFS_THREADS"]))},
    }


def resize_bilinear() -> Truth:
    """Four bytes per result; enlarging reaches all of the source."""
    n = N["RS_DW"] * N["RS_DH"]
    return {
        "arrays": {
            "src": array(3 * N["RS_SW"] * N["RS_SH"], 1, loaded=4 * 3 * n),
            "dst": array(3 * n, 1, stored=3 * n),
        },
        "loops": {"for (int c": same(3, n // 32)},
    }


def fir_decimate() -> Truth:
    """Windows of blocks overlap by the taps; the last one ends with the samples."""
    channels, outputs, taps, factor, samples, threads = (
        N[f"FIR_{name}"] for name in ("CH", "OUT", "TAPS", "M", "IN", "THREADS")
    )
    need, blocks = (threads - 1) * factor + taps, over(outputs, threads)
    read = sum(min(need, samples - b * threads * factor) for b in range(blocks))
    n = channels * outputs
    return {
        "arrays": {
            "input": array(channels * samples, 8, loaded=channels * read),
            "taps": array(taps, 4, loaded=n * taps),
            "output": array(n, 8, stored=n),
        },
        "loops": {
            "for (int s": loop(per_warp(strided(need, threads), threads), repeat=channels * blocks),
            "for (int k": same(taps, channels * over(outputs, 32)),
        },
        "fp32": 4 * n * taps,
    }


def triangle_stiffness() -> Truth:
    """Three nodes per triangle; the triangles fill the grid."""
    n, nodes, warps = N["TRI_N"], N["TRI_NX"] * N["TRI_NY"], over(N["TRI_N"], 32)
    return {
        "arrays": {
            "nodeX": array(nodes, 8, loaded=3 * n),
            "nodeY": array(nodes, 8, loaded=3 * n),
            "conn": array(3 * n, 4, loaded=3 * n),
            "material": array(n, 2, loaded=n),
            "conductivity": array(N["TRI_MATERIALS"], 8, loaded=n),
            "ke": array(9 * n, 8, stored=9 * n),
        },
        "loops": {
            "for (int a": same(3, warps, unroll="full"),
            "for (int i": same(3, warps, unroll="full"),
            "for (int j": same(3, 3 * warps, unroll="full"),
        },
    }


def thomas_interleaved() -> Truth:
    """A sweep down over all rows, one up over all but the last."""
    rows, batch = N["TH_N"], N["TH_BATCH"]
    n, rest, warps = rows * batch, (rows - 1) * batch, over(batch, 32)
    return {
        "arrays": {
            "a": array(rest, 8, loaded=rest),
            "b": array(n, 8, loaded=n),
            "c": array(n, 8, loaded=n + rest, stored=n),
            "d": array(n, 8, loaded=n + rest, stored=n + rest),
        },
        "loops": {
            "for (int i": same(rows - 1, warps),
            "for (int i#2": same(rows - 1, warps),
        },
    }


def quantize_per_row() -> Truth:
    """Two passes over each row."""
    rows, quads, threads = N["Q8_ROWS"], N["Q8_QUADS"], N["Q8_THREADS"]
    n, warps = rows * quads, threads // 32
    row = loop(per_warp(strided(quads, threads), threads), repeat=rows)
    return {
        "arrays": {
            "x": array(n, 16, loaded=2 * n),
            "q": array(n, 4, stored=n),
            "scales": array(rows, 4, stored=rows),
        },
        "loops": {
            "for (int i": row,
            "for (int mask": same(5, rows * warps, unroll="full"),
            "for (int w": same(warps, rows * warps, unroll="full"),
            "for (int i#2": row,
        },
    }


def mlp_forward() -> Truth:
    """Each block reads the weights, each thread the biases of the outputs."""
    n, inputs, hidden, outputs, threads = (
        N[f"MLP_{name}"] for name in ("N", "IN", "HID", "OUT", "THREADS")
    )
    blocks, warps = over(n, threads), over(n, 32)
    first, second = inputs * hidden, hidden * outputs
    every = same(outputs, warps, unroll="full")
    return {
        "arrays": {
            "net.w1": array(first, 4, loaded=blocks * first),
            "net.b1": array(hidden, 4, loaded=blocks * hidden),
            "net.w2": array(second, 4, loaded=blocks * second),
            "net.b2": array(outputs, 4, loaded=n * outputs),
            "x": array(n * inputs, 4, loaded=n * inputs),
            "y": array(n * outputs, 4, stored=n * outputs),
        },
        "loops": {
            "for (int i": loop(per_warp(strided(first, threads), threads), repeat=blocks),
            "for (int i#2": loop(per_warp(strided(second, threads), threads), repeat=blocks),
            "for (int k": same(inputs, warps, unroll="full"),
            "for (int o": every,
            "for (int j": same(hidden, warps),
            "for (int k#2": same(inputs, warps * hidden, unroll="full"),
            "for (int o#2": same(outputs, warps * hidden, unroll="full"),
            "for (int o#3": every,
        },
        "fp32": 2 * n * (first + second),
    }


def reduce6() -> Truth:
    """Blocks stride over the numbers by two of their size."""
    n, blocks, threads = N["RED_N"], N["RED_BLOCKS"], N["RED_THREADS"]
    start = np.arange(blocks)[:, None] * 2 * threads + np.arange(threads)
    steps = np.maximum(0, -(-(n - start) // (2 * threads * blocks))).ravel()
    return {
        "arrays": {
            "g_idata": array(n, 4, loaded=n),
            "g_odata": array(blocks, 4, stored=blocks),
        },
        "loops": {
            "while (i": loop(per_warp(steps, threads)),
            "for (int offset": same(5, blocks),
        },
    }


def prescan() -> Truth:
    """Nine steps up and nine down, each with a barrier."""
    blocks, size = N["PRE_BLOCKS"], N["PRE_N"]
    n = blocks * size
    sweep = same(size.bit_length() - 1, n // 2 // 32, barriers=1)
    return {
        "arrays": {
            "g_odata": array(n, 4, stored=n),
            "g_idata": array(n, 4, loaded=n),
            "g_sums": array(blocks, 4, stored=blocks),
        },
        "loops": {"for (int d": sweep, "for (int d#2": sweep},
    }


def rotary_embed() -> Truth:
    """Two numbers, a cosine and a sine per thread; positions may repeat."""
    tokens, heads, half = N["ROPE_TOKENS"], N["ROPE_HEADS"], N["ROPE_HALF"]
    used = len(np.unique(mix(np.arange(tokens) + 58) % np.uint32(N["ROPE_MAX"])))
    pairs = tokens * heads * half
    return {
        "arrays": {
            "q": array(2 * pairs, 4, loaded=2 * pairs, stored=2 * pairs),
            "positions": array(tokens, 4, loaded=pairs),
            "cos_table": array(used * half, 4, loaded=pairs),
            "sin_table": array(used * half, 4, loaded=pairs),
        },
        "loops": {},
        "fp32": 6 * pairs,
    }


def adamw_step() -> Truth:
    """Three arrays read and written, one read."""
    n, blocks, threads = N["ADAM_N"], N["ADAM_BLOCKS"], N["ADAM_THREADS"]
    changed = array(n, 4, loaded=n, stored=n)
    return {
        "arrays": {
            "st.param": changed,
            "st.exp_avg": changed,
            "st.exp_avg_sq": changed,
            "st.grad": array(n, 4, loaded=n),
        },
        "loops": {"for (size_t i": loop(per_warp(strided(n, blocks * threads), threads))},
    }


def flash_forward() -> Truth:
    """Each block reads all keys and values of its head; threads beyond the queries work too."""
    heads, length, dim, tile, threads = (
        N[f"FA_{name}"] for name in ("HEADS", "LEN", "DIM", "TILE", "THREADS")
    )
    blocks, rows = heads * over(length, threads), heads * length
    warps, n = blocks * threads // 32, rows * dim
    sizes = [min(tile, length - base) for base in range(0, length, tile)]
    return {
        "arrays": {
            "Q": array(n, 4, loaded=n),
            "K": array(n, 4, loaded=blocks * length * dim),
            "V": array(n, 4, loaded=blocks * length * dim),
            "O": array(n, 4, stored=n),
            "lse": array(rows, 4, stored=rows),
        },
        "loops": {
            "for (int d": same(dim, warps, unroll="full"),
            "for (int base": same(len(sizes), warps, barriers=2),
            "for (int e": loop([size * dim // threads for size in sizes], repeat=warps),
            "for (int j": loop(sizes, repeat=warps),
            "for (int d#2": same(dim, warps * length, unroll="full"),
            "for (int d#3": same(dim, warps * length, unroll="full"),
            "for (int d#4": same(dim, heads * over(length, 32), unroll="full"),
        },
    }


def sobelTiled() -> Truth:  # noqa: N802
    """Each block reads 18 by 18 bytes, whether they are in the image or repeat its border."""
    width, height = N["SOBEL_W"], N["SOBEL_H"]
    n, blocks = width * height, over(width, 16) * over(height, 16)
    return {
        "arrays": {
            "in": array(n, 1, loaded=blocks * 18 * 18),
            "out": array(n, 1, stored=n),
        },
        "loops": {"for (int i": loop(per_warp(strided(18 * 18, 256), 256), repeat=blocks)},
    }


def move_particles() -> Truth:
    """A struct of six numbers, read and written once."""
    n = 6 * N["BOX_N"]
    return {"arrays": {"particles": array(n, 4, loaded=n, stored=n)}, "loops": {}}


def main() -> None:
    """Writes known_third_truth.json."""
    write("known_third", SOURCE, globals())


if __name__ == "__main__":
    main()
