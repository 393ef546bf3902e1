"""Softmax over the rows of a matrix: out = exp(scale * x) / sum(exp(scale * x)), row by row."""

import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "harness"))

import torch
import triton
import triton.language as tl
from book import Book, Problem


class Data(NamedTuple):
    scores: torch.Tensor  # rows x width
    chances: torch.Tensor
    scale: float
    scratch: torch.Tensor  # as the scores
    row_max: torch.Tensor  # 32 values for each row
    row_sum: torch.Tensor


#: shared
@triton.jit
def softmax_rows(scores, chances, scale, width, block: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * width
    columns = tl.arange(0, block)
    inside = columns < width
    loaded = tl.load(scores + start + columns, mask=inside, other=-float("inf"))
    values = loaded.to(tl.float32) * scale
    weights = tl.exp(values - tl.max(values, axis=0))
    share = 1.0 / tl.sum(weights, axis=0)
    tl.store(chances + start + columns, (weights * share).to(chances.dtype.element_ty), mask=inside)


@triton.jit
def scale_scores(scores, scaled, scale, count, block: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    values = tl.load(scores + at, mask=at < count).to(tl.float32) * scale
    tl.store(scaled + at, values.to(scaled.dtype.element_ty), mask=at < count)


#: end


#: variant scaled_two_warps
def scaled_two_warps(d: Data) -> None:
    rows, width = d.scores.shape
    scale_scores[(triton.cdiv(rows * width, 4096),)](
        d.scores, d.scratch, d.scale, rows * width, block=4096, num_warps=8
    )
    softmax_rows[(rows,)](
        d.scratch, d.chances, 1.0, width, block=triton.next_power_of_2(width), num_warps=2
    )


#: end


#: variant scaled_eight_warps
def scaled_eight_warps(d: Data) -> None:
    rows, width = d.scores.shape
    scale_scores[(triton.cdiv(rows * width, 4096),)](
        d.scores, d.scratch, d.scale, rows * width, block=4096, num_warps=8
    )
    softmax_rows[(rows,)](
        d.scratch, d.chances, 1.0, width, block=triton.next_power_of_2(width), num_warps=8
    )


#: end


#: variant one_warp
def one_warp(d: Data) -> None:
    rows, width = d.scores.shape
    softmax_rows[(rows,)](
        d.scores, d.chances, d.scale, width, block=triton.next_power_of_2(width), num_warps=1
    )


#: end


#: variant two_warps
def two_warps(d: Data) -> None:
    rows, width = d.scores.shape
    softmax_rows[(rows,)](
        d.scores, d.chances, d.scale, width, block=triton.next_power_of_2(width), num_warps=2
    )


#: end


#: variant two_warps_128
def two_warps_128(d: Data) -> None:
    rows, width = d.scores.shape
    softmax_rows[(rows,)](
        d.scores,
        d.chances,
        d.scale,
        width,
        block=triton.next_power_of_2(width),
        num_warps=2,
        maxnreg=128,  # eight rows at a time on each processor
    )


#: end


#: variant four_warps
def four_warps(d: Data) -> None:
    rows, width = d.scores.shape
    softmax_rows[(rows,)](
        d.scores, d.chances, d.scale, width, block=triton.next_power_of_2(width), num_warps=4
    )


#: end


#: variant eight_warps
def eight_warps(d: Data) -> None:
    rows, width = d.scores.shape
    softmax_rows[(rows,)](
        d.scores, d.chances, d.scale, width, block=triton.next_power_of_2(width), num_warps=8
    )


#: end


#: variant step_by_step
@triton.jit
def row_maxima(scores, row_max, scale, width, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, block)
    loaded = tl.load(scores + row * width + columns, mask=columns < width, other=-float("inf"))
    tl.store(row_max + row, tl.max(loaded.to(tl.float32) * scale, axis=0))


@triton.jit
def exponentials(scores, weights, row_max, row_sum, scale, width, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, block)
    inside = columns < width
    loaded = tl.load(scores + row * width + columns, mask=inside, other=-float("inf"))
    weight = tl.exp(loaded.to(tl.float32) * scale - tl.load(row_max + row))
    tl.store(weights + row * width + columns, weight, mask=inside)
    tl.store(row_sum + row, tl.sum(weight, axis=0))


@triton.jit
def divide(weights, chances, row_sum, width, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, block)
    inside = columns < width
    weight = tl.load(weights + row * width + columns, mask=inside)
    tl.store(chances + row * width + columns, weight / tl.load(row_sum + row), mask=inside)


def step_by_step(d: Data) -> None:
    rows, width = d.scores.shape
    block = triton.next_power_of_2(width)
    row_maxima[(rows,)](d.scores, d.row_max, d.scale, width, block=block, num_warps=8)
    exponentials[(rows,)](
        d.scores, d.scratch, d.row_max, d.row_sum, d.scale, width, block=block, num_warps=8
    )
    divide[(rows,)](d.scratch, d.chances, d.row_sum, width, block=block, num_warps=8)


#: end


#: variant program_a_row
@triton.jit
def softmax_long_row(scores, chances, scale, width, block: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * width
    columns = tl.arange(0, block)
    best = tl.full((block,), -float("inf"), tl.float32)
    total = tl.zeros((block,), tl.float32)
    for first in range(0, width, block):
        values = tl.load(scores + start + first + columns) * scale
        higher = tl.maximum(best, values)
        total = total * tl.exp(best - higher) + tl.exp(values - higher)
        best = higher
    highest = tl.max(best, axis=0)
    share = 1.0 / tl.sum(total * tl.exp(best - highest), axis=0)
    for first in range(0, width, block):
        values = tl.load(scores + start + first + columns) * scale
        tl.store(chances + start + first + columns, tl.exp(values - highest) * share)


def program_a_row(d: Data) -> None:
    rows, width = d.scores.shape
    softmax_long_row[(rows,)](d.scores, d.chances, d.scale, width, block=8192, num_warps=8)


#: end


#: variant parts_of_rows
@triton.jit
def part_sums(scores, part_max, part_sum, scale, width, parts: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    values = tl.load(scores + row * width + part * block + tl.arange(0, block)) * scale
    highest = tl.max(values, axis=0)
    tl.store(part_max + row * parts + part, highest)
    tl.store(part_sum + row * parts + part, tl.sum(tl.exp(values - highest), axis=0))


@triton.jit
def part_chances(
    scores, chances, part_max, part_sum, scale, width, parts: tl.constexpr, block: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    at = row * width + tl.program_id(1) * block + tl.arange(0, block)
    each = row * parts + tl.arange(0, parts)
    of_part = tl.load(part_max + each)
    highest = tl.max(of_part, axis=0)
    share = 1.0 / tl.sum(tl.load(part_sum + each) * tl.exp(of_part - highest), axis=0)
    tl.store(chances + at, tl.exp(tl.load(scores + at) * scale - highest) * share)


def parts_of_rows(d: Data) -> None:
    rows, width = d.scores.shape
    block = 8192
    parts = width // block
    part_sums[(rows, parts)](
        d.scores, d.row_max, d.row_sum, d.scale, width, parts=parts, block=block, num_warps=8
    )
    part_chances[(rows, parts)](
        d.scores,
        d.chances,
        d.row_max,
        d.row_sum,
        d.scale,
        width,
        parts=parts,
        block=block,
        num_warps=8,
    )


#: end


def problem_of(
    book: Book, name: str, rows: int, width: int, dtype: torch.dtype, scratch: bool, work: tuple
) -> None:
    def define(p: Problem) -> None:
        scores = p.uniform(rows, width, low=-16, high=16, dtype=dtype)
        d = Data(
            scores,
            p.output(rows, width, dtype=dtype),
            0.25,
            p.output(rows if scratch else 1, width, dtype=dtype),
            p.output(rows, 32),
            p.output(rows, 32),
        )
        size = scores.element_size()
        p.needs(dram_bytes=2.0 * size * rows * width, special_op=1.0 * rows * width)
        p.check(
            d.chances,
            lambda: torch.softmax(scores.to(torch.float64) * d.scale, dim=1),
            relative=1e-4 if dtype == torch.float32 else 1e-2,
        )
        for each in work:
            p.variant(each.__name__, lambda each=each: each(d))

    book.problem(name, define)


def main() -> int:
    book = Book(sys.argv)
    problem_of(
        book,
        "long_bf16",
        2688,
        16384,
        torch.bfloat16,
        True,
        (scaled_two_warps, scaled_eight_warps, two_warps, four_warps, eight_warps),
    )
    problem_of(
        book,
        "middle_f32",
        2904,
        8192,
        torch.float32,
        True,
        (two_warps_128, eight_warps, step_by_step),
    )
    problem_of(book, "short_f32", 32768, 1024, torch.float32, False, (one_warp, four_warps))
    problem_of(book, "few_f32", 64, 262144, torch.float32, False, (program_a_row, parts_of_rows))
    return book.finish()


if __name__ == "__main__":
    sys.exit(main())
