"""Matrix products c = a b in half precision, sums in float."""

import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "harness"))

import torch
import triton
import triton.language as tl
from book import Book, Problem


class Data(NamedTuple):
    a: torch.Tensor  # m x k
    b: torch.Tensor  # k x n
    c: torch.Tensor  # m x n
    partial: torch.Tensor  # 4 x m x n floats


#: shared
@triton.jit
def tile_of(program, m, n, tile_m: tl.constexpr, tile_n: tl.constexpr, group: tl.constexpr):
    """Programs go through the tiles of the result in bands of `group` rows of tiles."""
    tiles_n = tl.cdiv(n, tile_n)
    first = program // (group * tiles_n) * group
    band = min(tl.cdiv(m, tile_m) - first, group)
    inside = program % (group * tiles_n)
    return first + inside % band, inside // band


@triton.jit
def matmul(
    a,
    b,
    c,
    m,
    n,
    k,
    tile_m: tl.constexpr,
    tile_n: tl.constexpr,
    tile_k: tl.constexpr,
    group: tl.constexpr,
):
    row, column = tile_of(tl.program_id(0), m, n, tile_m, tile_n, group)
    rows = (row * tile_m + tl.arange(0, tile_m)) % m
    columns = (column * tile_n + tl.arange(0, tile_n)) % n
    ks = tl.arange(0, tile_k)
    a_at = a + rows[:, None] * k + ks[None, :]
    b_at = b + ks[:, None] * n + columns[None, :]
    total = tl.zeros((tile_m, tile_n), tl.float32)
    for _ in range(0, k, tile_k):
        total = tl.dot(tl.load(a_at), tl.load(b_at), total)
        a_at += tile_k
        b_at += tile_k * n
    to_row = row * tile_m + tl.arange(0, tile_m)
    to_column = column * tile_n + tl.arange(0, tile_n)
    inside = (to_row[:, None] < m) & (to_column[None, :] < n)
    at = c + to_row[:, None] * n + to_column[None, :]
    tl.store(at, total.to(c.dtype.element_ty), mask=inside)


def programs(d: Data, tile_m: int, tile_n: int) -> tuple[int]:
    m, n = d.c.shape
    return (triton.cdiv(m, tile_m) * triton.cdiv(n, tile_n),)


#: end


#: variant small_unstaged
def small_unstaged(d: Data) -> None:
    m, k = d.a.shape
    matmul[programs(d, 64, 64)](
        d.a,
        d.b,
        d.c,
        m,
        d.b.shape[1],
        k,
        tile_m=64,
        tile_n=64,
        tile_k=64,
        group=8,
        num_warps=4,
        num_stages=1,
    )


#: end


#: variant small_staged
def small_staged(d: Data) -> None:
    m, k = d.a.shape
    matmul[programs(d, 64, 64)](
        d.a,
        d.b,
        d.c,
        m,
        d.b.shape[1],
        k,
        tile_m=64,
        tile_n=64,
        tile_k=64,
        group=8,
        num_warps=4,
        num_stages=3,
    )


#: end


#: variant large_unstaged
def large_unstaged(d: Data) -> None:
    m, k = d.a.shape
    matmul[programs(d, 128, 256)](
        d.a,
        d.b,
        d.c,
        m,
        d.b.shape[1],
        k,
        tile_m=128,
        tile_n=256,
        tile_k=64,
        group=8,
        num_warps=8,
        num_stages=1,
    )


#: end


#: variant large_two_stages
def large_two_stages(d: Data) -> None:
    m, k = d.a.shape
    matmul[programs(d, 128, 256)](
        d.a,
        d.b,
        d.c,
        m,
        d.b.shape[1],
        k,
        tile_m=128,
        tile_n=256,
        tile_k=64,
        group=8,
        num_warps=8,
        num_stages=2,
    )


#: end


#: variant large_staged
def large_staged(d: Data) -> None:
    m, k = d.a.shape
    matmul[programs(d, 128, 256)](
        d.a,
        d.b,
        d.c,
        m,
        d.b.shape[1],
        k,
        tile_m=128,
        tile_n=256,
        tile_k=64,
        group=8,
        num_warps=8,
        num_stages=3,
    )


#: end


#: variant middle_staged
def middle_staged(d: Data) -> None:
    m, k = d.a.shape
    matmul[programs(d, 128, 128)](
        d.a,
        d.b,
        d.c,
        m,
        d.b.shape[1],
        k,
        tile_m=128,
        tile_n=128,
        tile_k=64,
        group=8,
        num_warps=8,
        num_stages=3,
    )


#: end


#: variant low_staged
def low_staged(d: Data) -> None:
    m, k = d.a.shape
    matmul[programs(d, 64, 256)](
        d.a,
        d.b,
        d.c,
        m,
        d.b.shape[1],
        k,
        tile_m=64,
        tile_n=256,
        tile_k=32,
        group=8,
        num_warps=4,
        num_stages=4,
    )


#: end


#: variant in_float
@triton.jit
def matmul_in_float(
    a,
    b,
    c,
    m,
    n,
    k,
    tile_m: tl.constexpr,
    tile_n: tl.constexpr,
    tile_k: tl.constexpr,
    group: tl.constexpr,
):
    row, column = tile_of(tl.program_id(0), m, n, tile_m, tile_n, group)
    rows = (row * tile_m + tl.arange(0, tile_m)) % m
    columns = (column * tile_n + tl.arange(0, tile_n)) % n
    ks = tl.arange(0, tile_k)
    a_at = a + rows[:, None] * k + ks[None, :]
    b_at = b + ks[:, None] * n + columns[None, :]
    total = tl.zeros((tile_m, tile_n), tl.float32)
    for _ in range(0, k, tile_k):
        left = tl.load(a_at).to(tl.float32)
        right = tl.load(b_at).to(tl.float32)
        total = tl.dot(left, right, total, input_precision="ieee")
        a_at += tile_k
        b_at += tile_k * n
    to_row = row * tile_m + tl.arange(0, tile_m)
    to_column = column * tile_n + tl.arange(0, tile_n)
    inside = (to_row[:, None] < m) & (to_column[None, :] < n)
    at = c + to_row[:, None] * n + to_column[None, :]
    tl.store(at, total.to(c.dtype.element_ty), mask=inside)


def in_float(d: Data) -> None:
    m, k = d.a.shape
    matmul_in_float[programs(d, 64, 64)](
        d.a,
        d.b,
        d.c,
        m,
        d.b.shape[1],
        k,
        tile_m=64,
        tile_n=64,
        tile_k=32,
        group=8,
        num_warps=4,
        num_stages=3,
    )


#: end


#: variant split_sums
@triton.jit
def matmul_part(
    a,
    b,
    partial,
    m,
    n,
    k,
    tile_m: tl.constexpr,
    tile_n: tl.constexpr,
    tile_k: tl.constexpr,
    group: tl.constexpr,
    parts: tl.constexpr,
):
    row, column = tile_of(tl.program_id(0), m, n, tile_m, tile_n, group)
    part = tl.program_id(1)
    share = k // parts
    rows = (row * tile_m + tl.arange(0, tile_m)) % m
    columns = (column * tile_n + tl.arange(0, tile_n)) % n
    ks = part * share + tl.arange(0, tile_k)
    a_at = a + rows[:, None] * k + ks[None, :]
    b_at = b + ks[:, None] * n + columns[None, :]
    total = tl.zeros((tile_m, tile_n), tl.float32)
    for _ in range(0, share, tile_k):
        total = tl.dot(tl.load(a_at), tl.load(b_at), total)
        a_at += tile_k
        b_at += tile_k * n
    to_row = row * tile_m + tl.arange(0, tile_m)
    to_column = column * tile_n + tl.arange(0, tile_n)
    inside = (to_row[:, None] < m) & (to_column[None, :] < n)
    at = partial + part * m * n + to_row[:, None] * n + to_column[None, :]
    tl.store(at, total, mask=inside)


@triton.jit
def add_parts(partial, c, count, parts: tl.constexpr, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    total = tl.zeros((block,), tl.float32)
    for part in range(parts):
        total += tl.load(partial + part * count + at, mask=at < count, other=0.0)
    tl.store(c + at, total.to(c.dtype.element_ty), mask=at < count)


def split_sums(d: Data) -> None:
    m, k = d.a.shape
    n = d.b.shape[1]
    matmul_part[(*programs(d, 128, 256), 4)](
        d.a,
        d.b,
        d.partial,
        m,
        n,
        k,
        tile_m=128,
        tile_n=256,
        tile_k=64,
        group=8,
        parts=4,
        num_warps=8,
        num_stages=3,
    )
    add_parts[(triton.cdiv(m * n, 1024),)](d.partial, d.c, m * n, parts=4, block=1024)


#: end


def problem_of(
    book: Book, name: str, shape: tuple[int, int, int], dtype: torch.dtype, work: tuple
) -> None:
    def define(p: Problem) -> None:
        m, n, k = shape
        a = p.uniform(m, k, low=-1, high=1, dtype=dtype)
        b = p.uniform(k, n, low=-1, high=1, dtype=dtype)
        parts = 4 if split_sums in work else 0
        d = Data(a, b, p.output(m, n, dtype=dtype), p.output(max(1, parts * m * n)))
        p.needs(dram_bytes=2.0 * (m * k + k * n + m * n), tensor_flop=2.0 * m * n * k)
        half = dtype == torch.float16
        p.check(
            d.c,
            lambda: a.to(torch.float64) @ b.to(torch.float64),
            relative=2e-3 if half else 1e-2,
            absolute=0.03 if half else 0.1,
        )
        for each in work:
            p.variant(each.__name__, lambda each=each: each(d))

    book.problem(name, define)


def main() -> int:
    book = Book(sys.argv)
    problem_of(
        book,
        "square_f16",
        (4096, 4096, 4096),
        torch.float16,
        (
            small_unstaged,
            small_staged,
            large_unstaged,
            large_two_stages,
            large_staged,
            middle_staged,
        ),
    )
    problem_of(book, "cube_f16", (2048, 2048, 2048), torch.float16, (in_float, middle_staged))
    problem_of(book, "wide_bf16", (1024, 6144, 1536), torch.bfloat16, (in_float, middle_staged))
    problem_of(book, "deep_f16", (1024, 1024, 16384), torch.float16, (large_staged, split_sums))
    problem_of(book, "uneven_bf16", (2112, 2048, 8192), torch.bfloat16, (large_staged, low_staged))
    return book.finish()


if __name__ == "__main__":
    sys.exit(main())
