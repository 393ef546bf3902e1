"""Normalisation: of rows by their root mean square, of channels by given statistics; sums of columns."""

import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "harness"))

import torch
import triton
import triton.language as tl
from book import Book, Problem

# --- rows: out = x * gain / sqrt(mean(x * x) + epsilon)


class Rows(NamedTuple):
    x: torch.Tensor  # rows x width
    gain: torch.Tensor  # width
    out: torch.Tensor
    factor: torch.Tensor  # of each row: scratch
    epsilon: float


#: variant statistics_first
@triton.jit
def row_factors(x, factor, width, epsilon, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, block)
    value = tl.load(x + row * width + columns, mask=columns < width, other=0.0).to(tl.float32)
    tl.store(factor + row, tl.rsqrt(tl.sum(value * value, axis=0) / width + epsilon))


@triton.jit
def apply_factors(x, gain, out, factor, width, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, block)
    inside = columns < width
    value = tl.load(x + row * width + columns, mask=inside, other=0.0).to(tl.float32)
    scaled = value * tl.load(factor + row) * tl.load(gain + columns, mask=inside, other=0.0)
    tl.store(out + row * width + columns, scaled.to(out.dtype.element_ty), mask=inside)


def statistics_first(d: Rows) -> None:
    rows, width = d.x.shape
    block = triton.next_power_of_2(width)
    row_factors[(rows,)](d.x, d.factor, width, d.epsilon, block=block, num_warps=4)
    apply_factors[(rows,)](d.x, d.gain, d.out, d.factor, width, block=block, num_warps=4)


#: end


#: variant row_in_chunks
@triton.jit
def normalise_in_chunks(x, gain, out, width, epsilon, block: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * width
    squares = tl.zeros((block,), tl.float32)
    for first in range(0, width, block):
        columns = first + tl.arange(0, block)
        value = tl.load(x + start + columns, mask=columns < width, other=0.0).to(tl.float32)
        squares += value * value
    factor = tl.rsqrt(tl.sum(squares, axis=0) / width + epsilon)
    for first in range(0, width, block):
        columns = first + tl.arange(0, block)
        inside = columns < width
        value = tl.load(x + start + columns, mask=inside, other=0.0).to(tl.float32)
        scaled = value * factor * tl.load(gain + columns, mask=inside, other=0.0)
        tl.store(out + start + columns, scaled.to(out.dtype.element_ty), mask=inside)


def row_in_chunks(d: Rows) -> None:
    rows, width = d.x.shape
    normalise_in_chunks[(rows,)](d.x, d.gain, d.out, width, d.epsilon, block=4096, num_warps=4)


#: end


#: variant row_at_once
@triton.jit
def normalise_row(x, gain, out, width, epsilon, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, block)
    inside = columns < width
    value = tl.load(x + row * width + columns, mask=inside, other=0.0).to(tl.float32)
    factor = tl.rsqrt(tl.sum(value * value, axis=0) / width + epsilon)
    scaled = value * factor * tl.load(gain + columns, mask=inside, other=0.0)
    tl.store(out + row * width + columns, scaled.to(out.dtype.element_ty), mask=inside)


def row_at_once(d: Rows) -> None:
    rows, width = d.x.shape
    block = triton.next_power_of_2(width)
    normalise_row[(rows,)](d.x, d.gain, d.out, width, d.epsilon, block=block, num_warps=4)


#: end


#: shared
@triton.jit
def normalise_long_row(x, gain, out, width, epsilon, block: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * width
    squares = tl.zeros((block,), tl.float32)
    for first in range(0, width, block):
        value = tl.load(x + start + first + tl.arange(0, block)).to(tl.float32)
        squares += value * value
    factor = tl.rsqrt(tl.sum(squares, axis=0) / width + epsilon)
    for first in range(0, width, block):
        columns = first + tl.arange(0, block)
        value = tl.load(x + start + columns).to(tl.float32)
        scaled = value * factor * tl.load(gain + columns)
        tl.store(out + start + columns, scaled.to(out.dtype.element_ty))


#: end


#: variant chunks_of_512
def chunks_of_512(d: Rows) -> None:
    rows, width = d.x.shape
    normalise_long_row[(rows,)](d.x, d.gain, d.out, width, d.epsilon, block=512, num_warps=4)


#: end


#: variant chunks_of_2048
def chunks_of_2048(d: Rows) -> None:
    rows, width = d.x.shape
    normalise_long_row[(rows,)](d.x, d.gain, d.out, width, d.epsilon, block=2048, num_warps=4)


#: end


#: variant chunks_of_4096
def chunks_of_4096(d: Rows) -> None:
    rows, width = d.x.shape
    normalise_long_row[(rows,)](d.x, d.gain, d.out, width, d.epsilon, block=4096, num_warps=4)


#: end


#: variant row_in_registers
@triton.jit
def normalise_whole_row(x, gain, out, width, epsilon, block: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * width
    columns = tl.arange(0, block)
    inside = columns < width
    value = tl.load(x + start + columns, mask=inside, other=0.0).to(tl.float32)
    factor = tl.rsqrt(tl.sum(value * value, axis=0) / width + epsilon)
    scaled = value * factor * tl.load(gain + columns, mask=inside, other=0.0)
    tl.store(out + start + columns, scaled.to(out.dtype.element_ty), mask=inside)


def row_in_registers(d: Rows) -> None:
    rows, width = d.x.shape
    block = triton.next_power_of_2(width)
    normalise_whole_row[(rows,)](d.x, d.gain, d.out, width, d.epsilon, block=block, num_warps=16)


#: end


# --- channels: out = (x - mean) * factor * gain + shift, statistics of each channel given


class Channels(NamedTuple):
    x: torch.Tensor  # samples x channels
    mean: torch.Tensor
    factor: torch.Tensor
    gain: torch.Tensor
    shift: torch.Tensor
    scratch: torch.Tensor  # as x
    out: torch.Tensor
    sums: torch.Tensor  # of the columns
    partial: torch.Tensor  # 64 x channels


#: shared
@triton.jit
def normalise_tile(
    x, mean, factor, gain, shift, out, samples, channels, tile_s: tl.constexpr, tile_c: tl.constexpr
):
    tiles_c = channels // tile_c
    sample = tl.program_id(0) // tiles_c * tile_s + tl.arange(0, tile_s)
    channel = tl.program_id(0) % tiles_c * tile_c + tl.arange(0, tile_c)
    at = sample[:, None] * channels + channel[None, :]
    inside = (sample[:, None] < samples) & (channel[None, :] < channels)
    slope = tl.load(factor + channel) * tl.load(gain + channel)
    value = (tl.load(x + at, mask=inside) - tl.load(mean + channel)[None, :]) * slope[None, :]
    tl.store(out + at, value + tl.load(shift + channel)[None, :], mask=inside)


@triton.jit
def centre_tile(
    x, mean, factor, out, samples, channels, tile_s: tl.constexpr, tile_c: tl.constexpr
):
    tiles_c = channels // tile_c
    sample = tl.program_id(0) // tiles_c * tile_s + tl.arange(0, tile_s)
    channel = tl.program_id(0) % tiles_c * tile_c + tl.arange(0, tile_c)
    at = sample[:, None] * channels + channel[None, :]
    inside = (sample[:, None] < samples) & (channel[None, :] < channels)
    value = tl.load(x + at, mask=inside) - tl.load(mean + channel)[None, :]
    tl.store(out + at, value * tl.load(factor + channel)[None, :], mask=inside)


@triton.jit
def affine_tile(x, gain, shift, out, samples, channels, tile_s: tl.constexpr, tile_c: tl.constexpr):
    tiles_c = channels // tile_c
    sample = tl.program_id(0) // tiles_c * tile_s + tl.arange(0, tile_s)
    channel = tl.program_id(0) % tiles_c * tile_c + tl.arange(0, tile_c)
    at = sample[:, None] * channels + channel[None, :]
    inside = (sample[:, None] < samples) & (channel[None, :] < channels)
    value = tl.load(x + at, mask=inside) * tl.load(gain + channel)[None, :]
    tl.store(out + at, value + tl.load(shift + channel)[None, :], mask=inside)


def tiles(d: Channels, tile_s: int, tile_c: int) -> tuple[int]:
    samples, channels = d.x.shape
    return (triton.cdiv(samples, tile_s) * (channels // tile_c),)


#: end


#: variant channel_twice
def channel_twice(d: Channels) -> None:
    samples, channels = d.x.shape
    centre_tile[tiles(d, 1024, 1)](
        d.x, d.mean, d.factor, d.scratch, samples, channels, tile_s=1024, tile_c=1
    )
    affine_tile[tiles(d, 1024, 1)](
        d.scratch, d.gain, d.shift, d.out, samples, channels, tile_s=1024, tile_c=1
    )


#: end


#: variant channel_once
def channel_once(d: Channels) -> None:
    samples, channels = d.x.shape
    normalise_tile[tiles(d, 1024, 1)](
        d.x,
        d.mean,
        d.factor,
        d.gain,
        d.shift,
        d.out,
        samples,
        channels,
        tile_s=1024,
        tile_c=1,
    )


#: end


#: variant four_channels_once
def four_channels_once(d: Channels) -> None:
    samples, channels = d.x.shape
    normalise_tile[tiles(d, 512, 4)](
        d.x,
        d.mean,
        d.factor,
        d.gain,
        d.shift,
        d.out,
        samples,
        channels,
        tile_s=512,
        tile_c=4,
    )


#: end


#: variant tile_twice
def tile_twice(d: Channels) -> None:
    samples, channels = d.x.shape
    centre_tile[tiles(d, 16, 128)](
        d.x, d.mean, d.factor, d.scratch, samples, channels, tile_s=16, tile_c=128
    )
    affine_tile[tiles(d, 16, 128)](
        d.scratch, d.gain, d.shift, d.out, samples, channels, tile_s=16, tile_c=128
    )


#: end


#: variant tile_once
def tile_once(d: Channels) -> None:
    samples, channels = d.x.shape
    normalise_tile[tiles(d, 16, 128)](
        d.x,
        d.mean,
        d.factor,
        d.gain,
        d.shift,
        d.out,
        samples,
        channels,
        tile_s=16,
        tile_c=128,
    )


#: end


# --- sums of columns, as for the gradient of a shift


#: shared
@triton.jit
def add_rows(x, sums, samples, channels, share, tile_s: tl.constexpr, tile_c: tl.constexpr):
    channel = tl.program_id(0) * tile_c + tl.arange(0, tile_c)
    first = tl.program_id(1) * share
    total = tl.zeros((tile_s, tile_c), tl.float32)
    for start in range(first, min(first + share, samples), tile_s):
        sample = start + tl.arange(0, tile_s)
        at = sample[:, None] * channels + channel[None, :]
        total += tl.load(x + at, mask=sample[:, None] < samples, other=0.0)
    tl.store(sums + tl.program_id(1) * channels + channel, tl.sum(total, axis=0))


#: end


#: variant all_rows
def all_rows(d: Channels) -> None:
    samples, channels = d.x.shape
    add_rows[(channels // 32, 1)](
        d.x, d.sums, samples, channels, samples, tile_s=128, tile_c=32, num_warps=8
    )


#: end


#: variant blocks_of_rows
def blocks_of_rows(d: Channels) -> None:
    samples, channels = d.x.shape
    share = triton.cdiv(samples, 64)
    add_rows[(channels // 32, 64)](
        d.x, d.partial, samples, channels, share, tile_s=128, tile_c=32, num_warps=8
    )
    add_rows[(channels // 32, 1)](
        d.partial, d.sums, 64, channels, 64, tile_s=64, tile_c=32, num_warps=8
    )


#: end


def rows_problem(
    book: Book, name: str, shape: tuple[int, int], dtype: torch.dtype, work: tuple
) -> None:
    def define(p: Problem) -> None:
        rows, width = shape
        x = p.uniform(rows, width, low=-2, high=2, dtype=dtype)
        gain = p.uniform(width, low=0.5, high=1.5)
        d = Rows(x, gain, p.output(rows, width, dtype=dtype), p.output(rows), 1e-5)
        p.needs(dram_bytes=2.0 * x.element_size() * rows * width)

        def reference() -> torch.Tensor:
            wide = x.to(torch.float64)
            factor = torch.rsqrt((wide * wide).mean(dim=1, keepdim=True) + d.epsilon)
            return wide * factor * gain.to(torch.float64)

        p.check(d.out, reference, relative=1e-4 if dtype == torch.float32 else 1e-2, absolute=1e-6)
        for each in work:
            p.variant(each.__name__, lambda each=each: each(d))

    book.problem(name, define)


def channels_problem(
    book: Book, name: str, shape: tuple[int, int], work: tuple, sums: bool = False
) -> None:
    def define(p: Problem) -> None:
        samples, channels = shape
        x = p.uniform(samples, channels, low=-1, high=3)
        given = [p.uniform(channels, low=0.5, high=1.5) for _ in range(4)]
        whole = 1 if sums else samples
        d = Channels(
            x,
            *given,
            p.output(whole, channels),
            p.output(whole, channels),
            p.output(channels),
            p.output(64, channels),
        )
        if sums:
            p.needs(dram_bytes=4.0 * samples * channels + 4.0 * channels)
            p.check(d.sums, lambda: x.to(torch.float64).sum(dim=0), relative=1e-4)
        else:
            p.needs(dram_bytes=8.0 * samples * channels)

            def reference() -> torch.Tensor:
                mean, factor, gain, shift = (each.to(torch.float64) for each in given)
                return (x.to(torch.float64) - mean) * factor * gain + shift

            p.check(d.out, reference, relative=1e-4, absolute=1e-5)
        for each in work:
            p.variant(each.__name__, lambda each=each: each(d))

    book.problem(name, define)


def main() -> int:
    book = Book(sys.argv)
    rows_problem(
        book,
        "rows_bf16",
        (16384, 4096),
        torch.bfloat16,
        (statistics_first, row_in_chunks, row_at_once),
    )
    rows_problem(
        book, "long_rows_f32", (528, 65536), torch.float32, (chunks_of_512, chunks_of_4096)
    )
    rows_problem(
        book, "wide_rows_f32", (2112, 16384), torch.float32, (chunks_of_2048, row_in_registers)
    )
    channels_problem(
        book,
        "channels_f32",
        (40960, 512),
        (channel_twice, channel_once, four_channels_once, tile_twice, tile_once),
    )
    channels_problem(book, "sums_f32", (65536, 512), (all_rows, blocks_of_rows), sums=True)
    return book.finish()


if __name__ == "__main__":
    sys.exit(main())
