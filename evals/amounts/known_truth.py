"""The amounts of work of known.cu, from its source alone: by formulas and, for data, by numpy.

Written to known_truth.json. What each field means:

item        elements stored in the array that has most of them (each element once)
arrays      per pointer parameter. distinct: bytes touched, each once. loaded, stored, atomic:
            bytes that all threads ask for. requested: their sum (an atomic counts its operand
            once). times_read: loaded over distinct. elements_stored: each once (an array that
            is stored to is so wherever it is touched).
loops       per source line of the loop's head. mean, least, most: iterations per entry of a warp
            (as many as its longest lane has), in iterations of the source, over entries with at
            least one. entries: entries of all warps. empty: entries without any iteration.
            barriers: per iteration, those of inner loops too. unroll: what the source asks of
            the compiler: 1, a number, "full" (no loop is left) or "free".
fp32, fp64  additions and multiplications of all threads (a fused one counts as two), where the
            source forces their number; conversions and comparisons do not count.
same        loads that read the same in every iteration of a loop, as in invariant_truth.json

emulated.py counts the same by running the source.
"""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evals.amounts.sources import HERE, Source

SOURCE = Source(HERE / "known.cu")
N = SOURCE.sizes
Numbers = NDArray[np.int64]
Truth = dict[str, Any]
TRUTHS: dict[str, Callable[[], Truth]] = {}


def mix(x: NDArray[Any]) -> NDArray[np.uint32]:
    """The hash of host_tools.h."""
    x = x.astype(np.uint32)
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    x ^= x >> np.uint32(16)
    return x


def over(n: int, size: int) -> int:
    """Blocks of a size that cover n."""
    return -(-n // size)


def array(  # noqa: PLR0913 - what an array is made of
    distinct: int,
    size: int,
    *,
    loaded: int = 0,
    stored: int = 0,
    atomic: int = 0,
    elements_stored: int | None = None,
) -> Truth:
    """Amounts of one array; counts of elements of `size` bytes become bytes. `elements_stored`: if
    not all of them are."""
    changed = "updated" if loaded + atomic else "written"
    access = changed if stored + atomic else "read"
    return {
        "distinct": distinct * size,
        "requested": (loaded + stored + atomic) * size,
        "access": access,
        "loaded": loaded * size,
        "stored": stored * size,
        "atomic": atomic * size,
        "times_read": round(loaded / distinct, 6),
        "elements_stored": 0 if access == "read" else elements_stored or distinct,
    }


def loop(
    counts: Numbers | list[int], *, repeat: int = 1, barriers: float = 0, unroll: int | str = "free"
) -> Truth:
    """One loop: iterations of each entry of a warp (below zero: no entry), all of it repeated."""
    entered = np.asarray(counts)
    entered = entered[entered >= 0]
    going = entered[entered > 0]
    return {
        "mean": round(float(going.sum() / len(going)), 6),
        "least": int(going.min()),
        "most": int(going.max()),
        "entries": len(entered) * repeat,
        "empty": int((entered == 0).sum()) * repeat,
        "barriers": barriers,
        "unroll": unroll,
    }


def same(count: int, entries: int, *, barriers: float = 0, unroll: int | str = "free") -> Truth:
    """A loop that every entry iterates equally often."""
    return loop([count], repeat=entries, barriers=barriers, unroll=unroll)


def per_warp(threads: Numbers, block: int) -> Numbers:
    """The longest lane of each warp; `threads` goes block by block, the last may be short."""
    blocks = over(len(threads), block)
    lanes = np.full((blocks, over(block, 32) * 32), -1, dtype=np.int64)
    full = np.full(blocks * block, -1, dtype=np.int64)
    full[: len(threads)] = threads
    lanes[:, :block] = full.reshape(blocks, block)
    longest: Numbers = lanes.reshape(-1, 32).max(axis=1)
    return longest


def strided(n: int, threads: int) -> Numbers:
    """Iterations of each thread in a loop that strides over n by all threads."""
    first = np.arange(threads, dtype=np.int64)
    return np.maximum(0, -(-(n - first) // threads))


def truth(kernel: Callable[[], Truth]) -> Callable[[], Truth]:
    """Registers the truth of the kernel of the same name."""
    TRUTHS[kernel.__name__] = kernel
    return kernel


@truth
def stencil5() -> Truth:
    """Corners are never read; five loads for each inner cell."""
    nx, ny = N["STENCIL_NX"], N["STENCIL_NY"]
    inner = (nx - 2) * (ny - 2)
    return {
        "arrays": {
            "in": array(nx * ny - 4, 4, loaded=5 * inner),
            "out": array(inner, 4, stored=inner),
        },
        "loops": {},
        "fp32": 6 * inner,
    }


@truth
def matmul_naive() -> Truth:
    """Two loads for each step of each result."""
    m, n, depth = N["NAIVE_M"], N["NAIVE_N"], N["NAIVE_DEPTH"]
    return {
        "arrays": {
            "a": array(m * depth, 4, loaded=m * n * depth),
            "b": array(depth * n, 4, loaded=m * n * depth),
            "c": array(m * n, 4, stored=m * n),
        },
        "loops": {"for (int k": same(depth, m * n // 32)},
        "fp32": 2 * m * n * depth,
    }


@truth
def matmul_tiled() -> Truth:
    """Each tile of a is read by every column of blocks, of b by every row of blocks."""
    m, n, depth, tile = N["TILED_M"], N["TILED_N"], N["TILED_DEPTH"], N["TILE"]
    across, down, tiles = over(n, tile), over(m, tile), over(depth, tile)
    warps = across * down * tile * tile // 32
    return {
        "arrays": {
            "a": array(m * depth, 4, loaded=m * depth * across),
            "b": array(depth * n, 4, loaded=depth * n * down),
            "c": array(m * n, 4, stored=m * n),
        },
        "loops": {
            "for (int start": same(tiles, warps, barriers=2),
            "for (int e": same(tile, warps * tiles, unroll="full"),
        },
        "fp32": 2 * across * down * tile * tile * tiles * tile,
    }


@truth
def histogram_bytes() -> Truth:
    """Each block adds all its bins up, whether they are empty or not."""
    n, blocks, threads, bins = N["HIST_N"], N["HIST_BLOCKS"], N["HIST_THREADS"], N["BINS"]
    some = same(bins // threads, blocks * threads // 32)
    return {
        "arrays": {
            "data": array(n, 1, loaded=n),
            "bins": array(bins, 4, atomic=bins * blocks),
        },
        "loops": {
            "for (int i = threadIdx.x": some,
            "for (int i = blockIdx.x": loop(per_warp(strided(n, blocks * threads), threads)),
            "for (int k = threadIdx.x": some,
        },
    }


@truth
def spmv_csr() -> Truth:
    """Lengths of rows and columns as the host makes them."""
    rows = N["SPMV_ROWS"]
    hashes = mix(np.arange(rows) + 6).astype(np.int64)
    lengths = 1 + hashes % 24 + np.where(hashes % 97 == 0, 200, 0)
    entries = int(lengths.sum())
    columns = len(np.unique(mix(np.arange(entries) + 7) % np.uint32(N["SPMV_COLS"])))
    return {
        "arrays": {
            "row_start": array(rows + 1, 4, loaded=2 * rows),
            "column": array(entries, 4, loaded=entries),
            "value": array(entries, 4, loaded=entries),
            "x": array(columns, 4, loaded=entries),
            "y": array(rows, 4, stored=rows),
        },
        "loops": {"for (int e": loop(per_warp(lengths, 128))},
        "fp32": 2 * entries,
    }


@truth
def batch_lookup() -> Truth:
    """The table of a block is read once per batch."""
    blocks, threads, batches = N["LOOKUP_BLOCKS"], N["LOOKUP_THREADS"], N["LOOKUP_BATCHES"]
    tables, found = blocks * N["ENTRIES"], blocks * threads * batches
    warps = blocks * threads // 32
    return {
        "arrays": {
            "tables": array(tables, 4, loaded=tables * batches),
            "keys": array(found, 2, loaded=found),
            "found": array(found, 4, stored=found),
        },
        "loops": {
            "for (int batch": same(batches, warps, barriers=2),
            "for (int e": same(N["ENTRIES"] // threads, warps * batches),
        },
        "same": [
            {
                "load_line": SOURCE.line("batch_lookup", "table[e] = tables"),
                "loop_line": SOURCE.line("batch_lookup", "for (int batch"),
                "array": "tables",
                "times": batches,
                "bytes_per_block": 4 * N["ENTRIES"],
                "entries": 1,
            }
        ],
    }


@truth
def row_softmax() -> Truth:
    """Three passes over each row and two trees."""
    rows, cols, threads = N["SOFTMAX_ROWS"], N["SOFTMAX_COLS"], N["SOFTMAX_THREADS"]
    row = loop(per_warp(strided(cols, threads), threads), repeat=rows)
    tree = same(threads.bit_length() - 1, rows * threads // 32, barriers=1)
    return {
        "arrays": {
            "x": array(rows * cols, 4, loaded=3 * rows * cols),
            "y": array(rows * cols, 4, stored=rows * cols),
        },
        "loops": {
            "for (int i": row,
            "for (int half": tree,
            "for (int i#2": row,
            "for (int width": tree,
            "for (int i#3": row,
        },
    }


@truth
def reduce_sum() -> Truth:
    """Additions: one per element, five per thread, five more per lane of each first warp."""
    n, blocks, threads = N["SUM_N"], N["SUM_BLOCKS"], N["SUM_THREADS"]
    return {
        "arrays": {
            "in": array(n, 8, loaded=n),
            "partial": array(blocks, 8, stored=blocks),
        },
        "loops": {
            "for (int i": loop(per_warp(strided(n, blocks * threads), threads)),
            "for (int step": same(5, blocks * threads // 32, unroll="full"),
            "for (int step#2": same(5, blocks, unroll="full"),
        },
        "fp64": n + 5 * blocks * threads + 5 * 32 * blocks,
    }


@truth
def transpose_tile() -> Truth:
    """Each element once."""
    width, height = N["TURN_WIDTH"], N["TURN_HEIGHT"]
    n, warps = width * height, over(width, 32) * over(height, 32) * 8
    four = same(4, warps, unroll="full")
    return {
        "arrays": {"in": array(n, 4, loaded=n), "out": array(n, 4, stored=n)},
        "loops": {"for (int j": four, "for (int j#2": four},
    }


@truth
def kmeans_assign() -> Truth:
    """Per centre eight differences, eight products, seven sums."""
    n, k, dim = N["KMEANS_N"], N["KMEANS_K"], N["DIM"]
    warps = over(n, 32)
    return {
        "arrays": {
            "points": array(n * dim, 4, loaded=n * dim),
            "centres": array(k * dim, 4, loaded=n * k * dim),
            "label": array(n, 4, stored=n),
        },
        "loops": {
            "for (int d": same(dim, warps, unroll="full"),
            "for (int c": same(k, warps, unroll=1),
            "for (int d#2": same(dim - 1, warps * k, unroll="full"),
        },
        "fp32": (3 * dim - 1) * k * n,
    }


@truth
def conv_valid() -> Truth:
    """Nine taps per channel for each result."""
    side, channels, filters = N["CONV_SIDE"] - 2, N["CONV_CHANNELS"], N["CONV_FILTERS"]
    results = side * side * filters
    pixels = channels * N["CONV_SIDE"] ** 2
    warps = over(side, 32) * side * filters
    return {
        "arrays": {
            "image": array(pixels, 2, loaded=9 * channels * results),
            "weights": array(9 * channels * filters, 4, loaded=9 * channels * results),
            "out": array(results, 4, stored=results),
        },
        "loops": {
            "for (int c": same(channels, warps),
            "for (int dy": same(3, warps * channels, unroll="full"),
            "for (int dx": same(3, warps * channels * 3, unroll="full"),
        },
        "fp32": 2 * 9 * channels * results,
    }


@truth
def pair_forces() -> Truth:
    """Each block reads all bodies, and each thread its own."""
    n, tile = N["BODIES"], N["BODY_TILE"]
    blocks = n // tile
    return {
        "arrays": {
            "body": array(n, 16, loaded=n + blocks * n),
            "force": array(n, 16, stored=n),
        },
        "loops": {
            "for (int start": same(blocks, n // 32, barriers=2),
            "for (int j": same(tile, n // 32 * blocks, unroll=8),
        },
    }


@truth
def heat_steps() -> Truth:
    """Even steps read `even` and write `odd`, odd steps the other way round."""
    rods, cells, steps, threads = N["RODS"], N["ROD_CELLS"], N["ROD_STEPS"], N["ROD_THREADS"]
    n, first, second = rods * cells, over(steps, 2), steps // 2
    return {
        "arrays": {
            "even": array(n, 4, loaded=3 * n * first, stored=n * second),
            "odd": array(n, 4, loaded=3 * n * second, stored=n * first),
        },
        "loops": {
            "for (int step": same(steps, rods * threads // 32, barriers=1, unroll=1),
            "for (int c": loop(
                per_warp(strided(cells, threads), threads), repeat=rods * steps, unroll=1
            ),
        },
        "fp32": 5 * n * steps,
    }


@truth
def block_scan() -> Truth:
    """Eight steps of two barriers."""
    n, threads = N["SCAN_N"], N["SCAN_THREADS"]
    blocks = over(n, threads)
    return {
        "arrays": {
            "in": array(n, 4, loaded=n),
            "out": array(n, 4, stored=n),
            "totals": array(blocks, 4, stored=blocks),
        },
        "loops": {
            "for (int back": same(threads.bit_length() - 1, blocks * threads // 32, barriers=2)
        },
    }


@truth
def polynomial_fixed() -> Truth:
    """Sixteen multiplications and additions per element."""
    n, degree = N["FIXED_N"], N["DEGREE"]
    return {
        "arrays": {"x": array(n, 4, loaded=n), "y": array(n, 4, stored=n)},
        "loops": {"for (int k": same(degree, over(n, 32), unroll="full")},
        "fp32": 2 * degree * n,
    }


@truth
def polynomial_given() -> Truth:
    """All coefficients for each element."""
    n, degree = N["GIVEN_N"], N["GIVEN_DEGREE"]
    return {
        "arrays": {
            "coefficient": array(degree + 1, 8, loaded=(degree + 1) * n),
            "x": array(n, 8, loaded=n),
            "y": array(n, 8, stored=n),
        },
        "loops": {"for (int k": same(degree, over(n, 32))},
        "fp64": 2 * degree * n,
    }


@truth
def lower_product() -> Truth:
    """A triangle: row i has i + 1 steps."""
    n = N["LOWER_N"]
    steps = n * (n + 1) // 2
    return {
        "arrays": {
            "lower": array(steps, 8, loaded=steps),
            "x": array(n, 8, loaded=steps),
            "y": array(n, 8, stored=n),
        },
        "loops": {"for (int j": loop(per_warp(np.arange(n) + 1, 64))},
        "fp64": 2 * steps,
    }


@truth
def particles_move() -> Truth:
    """Six arrays read and written once, one read."""
    n, blocks, threads = N["MOVE_N"], N["MOVE_BLOCKS"], N["MOVE_THREADS"]
    moved = {name: array(n, 4, loaded=n, stored=n) for name in ("px", "py", "pz", "vx", "vy", "vz")}
    return {
        "arrays": {**moved, "charge": array(n, 4, loaded=n)},
        "loops": {"for (int i": loop(per_warp(strided(n, blocks * threads), threads))},
        "fp32": 13 * n,
    }


@truth
def volume_gradient() -> Truth:
    """Six loads of a byte for each cell; at borders two of them meet other cells' places."""
    n = N["VOLUME_NX"] * N["VOLUME_NY"] * N["VOLUME_NZ"]
    return {
        "arrays": {
            "volume": array(n, 1, loaded=6 * n),
            "gradient": array(n, 16, stored=n),
        },
        "loops": {},
    }


@truth
def collatz_steps() -> Truth:
    """The steps of every start, by doing them."""
    n = N["COLLATZ_N"]
    value = 1 + mix(np.arange(n) + 32).astype(np.int64) % 100000
    steps = np.zeros(n, dtype=np.int64)
    for _ in range(N["COLLATZ_LIMIT"]):
        going = value != 1
        steps += going
        value = np.where(going, np.where(value % 2 == 0, value // 2, 3 * value + 1), value)
    return {
        "arrays": {"start": array(n, 4, loaded=n), "steps": array(n, 2, stored=n)},
        "loops": {"while (v": loop(per_warp(steps, 192), unroll=1)},
    }


@truth
def first_match() -> Truth:
    """Words up to the first match of each list."""
    lists, length = N["MATCH_LISTS"], N["MATCH_LENGTH"]
    read = np.full(lists, length, dtype=np.int64)
    for j in reversed(range(length)):
        words = mix(np.arange(lists) + j * lists + 33)
        read[(words & 127) == 77] = j + 1
    total = int(read.sum())
    return {
        "arrays": {
            "words": array(total, 4, loaded=total),
            "place": array(lists, 4, stored=lists),
        },
        "loops": {"for (int j": loop(per_warp(read, 128), unroll=1)},
    }


@truth
def half_bias() -> Truth:
    """The bias is read once per thread, before the loop. A warp has one row's columns."""
    rows, cols, lines = N["BIAS_ROWS"], N["BIAS_COLS"], 22 * 4
    n = rows * cols
    return {
        "arrays": {
            "x": array(n, 4, loaded=n),
            "bias": array(cols, 4, loaded=cols * lines),
            "y": array(n, 4, stored=n),
        },
        "loops": {"for (int row": loop(strided(rows, lines), repeat=over(cols, 32))},
    }


@truth
def smooth_channels() -> Truth:
    """Two products and one sum for each element."""
    channels, times = N["SMOOTH_CHANNELS"], N["SMOOTH_TIMES"]
    n = channels * times
    return {
        "arrays": {"x": array(n, 4, loaded=n), "y": array(n, 4, stored=n)},
        "loops": {"for (int t": same(times, over(channels, 32), unroll=4)},
        "fp32": 3 * n,
    }


@truth
def block_sort() -> Truth:
    """Sizes 2 to 512; size 2^s has s strides with a barrier each."""
    blocks, threads = N["SORT_BLOCKS"], N["SORT_THREADS"]
    n, sizes = blocks * threads, threads.bit_length() - 1
    strides = list(range(1, sizes + 1))
    return {
        "arrays": {"keys": array(n, 4, loaded=n, stored=n)},
        "loops": {
            "for (int size": same(sizes, n // 32, barriers=sum(strides) / sizes),
            "for (int stride": loop(strides, repeat=n // 32, barriers=1),
        },
    }


@truth
def embedding_bag() -> Truth:
    """Row numbers as the host makes them; all lanes of a warp read the same number."""
    bags = N["BAG_COUNT"]
    sizes = 1 + mix(np.arange(bags) + 40).astype(np.int64) % 15
    entries = int(sizes.sum())
    rows = len(np.unique(mix(np.arange(entries) + 41) % np.uint32(N["BAG_ROWS"])))
    return {
        "arrays": {
            "table": array(rows * 32, 16, loaded=entries * 32),
            "ids": array(entries, 4, loaded=entries * 32),
            "offsets": array(bags + 1, 4, loaded=2 * bags * 32),
            "sums": array(bags * 32, 16, stored=bags * 32),
        },
        "loops": {"for (int e": loop(sizes)},
        "fp32": 4 * 32 * entries,
    }


def all_truths() -> dict[str, Truth]:
    """The truth of every kernel, loops by line."""
    every: dict[str, Truth] = {}
    for kernel in SOURCE.kernels():
        told = TRUTHS[kernel]()
        loops = {}
        for head, amounts in told["loops"].items():
            text, _, nth = head.partition("#")
            loops[str(SOURCE.line(kernel, text, int(nth or 1)))] = amounts
        item = max(amounts["elements_stored"] for amounts in told["arrays"].values())
        every[kernel] = {"item": item, "same": [], **told, "loops": loops}
    return every


def main() -> None:
    """Writes known_truth.json, one kernel per line."""
    lines = [f"{json.dumps(kernel)}: {json.dumps(told)}" for kernel, told in all_truths().items()]
    (HERE / "known_truth.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
