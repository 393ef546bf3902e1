"""Embeddings: rows of a table by their ids, one by one or added up in bags."""

import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "harness"))

import torch
import triton
import triton.language as tl
from book import Book, Problem

# --- lookup: out[i] = table[ids[i]]


class Lookup(NamedTuple):
    table: torch.Tensor  # entries x width
    ids: torch.Tensor
    out: torch.Tensor  # ids x width


#: variant id_a_program
@triton.jit
def copy_row(table, ids, out, width: tl.constexpr):
    place = tl.program_id(0).to(tl.int64)
    entry = tl.load(ids + place).to(tl.int64)
    columns = tl.arange(0, width)
    tl.store(out + place * width + columns, tl.load(table + entry * width + columns))


def id_a_program(d: Lookup) -> None:
    copy_row[(d.ids.shape[0],)](d.table, d.ids, d.out, width=d.table.shape[1], num_warps=1)


#: end


#: variant ids_by_column
@triton.jit
def copy_column(table, ids, out, width: tl.constexpr, block: tl.constexpr):
    column = tl.program_id(0) % width
    place = (tl.program_id(0) // width * block + tl.arange(0, block)).to(tl.int64)
    entry = tl.load(ids + place).to(tl.int64)
    tl.store(out + place * width + column, tl.load(table + entry * width + column))


def ids_by_column(d: Lookup) -> None:
    count, width = d.out.shape
    copy_column[(count // 512 * width,)](d.table, d.ids, d.out, width=width, block=512, num_warps=4)


#: end


#: shared
@triton.jit
def copy_rows(table, ids, out, width: tl.constexpr, block: tl.constexpr):
    place = (tl.program_id(0) * block + tl.arange(0, block)).to(tl.int64)
    entry = tl.load(ids + place).to(tl.int64)
    columns = tl.arange(0, width)
    rows = tl.load(table + entry[:, None] * width + columns[None, :])
    tl.store(out + place[:, None] * width + columns[None, :], rows)


#: end


#: variant ids_by_row
def ids_by_row(d: Lookup) -> None:
    count, width = d.out.shape
    copy_rows[(count // 32,)](d.table, d.ids, d.out, width=width, block=32, num_warps=4)


#: end


#: variant more_ids_by_row
def more_ids_by_row(d: Lookup) -> None:
    count, width = d.out.shape
    copy_rows[(count // 64,)](d.table, d.ids, d.out, width=width, block=64, num_warps=4)


#: end


# --- bags of equal size: out[b] = sum of table[ids[b, j]] over j


class Bags(NamedTuple):
    table: torch.Tensor
    ids: torch.Tensor  # bags x size
    scratch: torch.Tensor  # bags x size x width
    out: torch.Tensor  # bags x width


#: variant columns_then_sums
@triton.jit
def pick_columns(table, ids, picked, width: tl.constexpr, block: tl.constexpr):
    column = tl.program_id(0) % width
    place = (tl.program_id(0) // width * block + tl.arange(0, block)).to(tl.int64)
    entry = tl.load(ids + place).to(tl.int64)
    tl.store(picked + place * width + column, tl.load(table + entry * width + column))


@triton.jit
def add_picked_columns(picked, out, size: tl.constexpr, width: tl.constexpr, block: tl.constexpr):
    column = tl.program_id(0) % width
    bag = (tl.program_id(0) // width * block + tl.arange(0, block)).to(tl.int64)
    total = tl.zeros((block,), tl.float32)
    for j in range(size):
        total += tl.load(picked + (bag * size + j) * width + column)
    tl.store(out + bag * width + column, total)


def columns_then_sums(d: Bags) -> None:
    bags, size = d.ids.shape
    width = d.table.shape[1]
    pick_columns[(bags * size // 512 * width,)](
        d.table, d.ids, d.scratch, width=width, block=512, num_warps=4
    )
    add_picked_columns[(bags // 256 * width,)](
        d.scratch, d.out, size=size, width=width, block=256, num_warps=4
    )


#: end


#: variant columns_summed
@triton.jit
def add_columns(table, ids, out, size: tl.constexpr, width: tl.constexpr, block: tl.constexpr):
    column = tl.program_id(0) % width
    bag = (tl.program_id(0) // width * block + tl.arange(0, block)).to(tl.int64)
    total = tl.zeros((block,), tl.float32)
    for j in range(size):
        entry = tl.load(ids + bag * size + j).to(tl.int64)
        total += tl.load(table + entry * width + column)
    tl.store(out + bag * width + column, total)


def columns_summed(d: Bags) -> None:
    bags, size = d.ids.shape
    width = d.table.shape[1]
    add_columns[(bags // 256 * width,)](
        d.table, d.ids, d.out, size=size, width=width, block=256, num_warps=4
    )


#: end


#: variant rows_then_sums
@triton.jit
def pick_rows(table, ids, picked, width: tl.constexpr, block: tl.constexpr):
    place = (tl.program_id(0) * block + tl.arange(0, block)).to(tl.int64)
    entry = tl.load(ids + place).to(tl.int64)
    columns = tl.arange(0, width)
    rows = tl.load(table + entry[:, None] * width + columns[None, :])
    tl.store(picked + place[:, None] * width + columns[None, :], rows)


@triton.jit
def add_picked_rows(picked, out, size: tl.constexpr, width: tl.constexpr, block: tl.constexpr):
    bag = (tl.program_id(0) * block + tl.arange(0, block)).to(tl.int64)
    columns = tl.arange(0, width)
    total = tl.zeros((block, width), tl.float32)
    for j in tl.static_range(size):
        total += tl.load(picked + (bag[:, None] * size + j) * width + columns[None, :])
    tl.store(out + bag[:, None] * width + columns[None, :], total)


def rows_then_sums(d: Bags) -> None:
    bags, size = d.ids.shape
    width = d.table.shape[1]
    pick_rows[(bags * size // 32,)](d.table, d.ids, d.scratch, width=width, block=32, num_warps=4)
    add_picked_rows[(bags // 8,)](d.scratch, d.out, size=size, width=width, block=8, num_warps=4)


#: end


#: variant rows_summed
@triton.jit
def add_table_rows(table, ids, out, size: tl.constexpr, width: tl.constexpr, block: tl.constexpr):
    bag = (tl.program_id(0) * block + tl.arange(0, block)).to(tl.int64)
    columns = tl.arange(0, width)
    total = tl.zeros((block, width), tl.float32)
    for j in tl.static_range(size):
        entry = tl.load(ids + bag * size + j).to(tl.int64)
        total += tl.load(table + entry[:, None] * width + columns[None, :])
    tl.store(out + bag[:, None] * width + columns[None, :], total)


def rows_summed(d: Bags) -> None:
    bags, size = d.ids.shape
    width = d.table.shape[1]
    add_table_rows[(bags // 8,)](
        d.table, d.ids, d.out, size=size, width=width, block=8, num_warps=4
    )


#: end


# --- bags of different sizes, bfloat16 table: ids of bag b are those from first[b] to first[b + 1]


class Ragged(NamedTuple):
    table: torch.Tensor
    ids: torch.Tensor
    first: torch.Tensor  # bags + 1
    piece_bag: torch.Tensor  # pieces of at most 64 ids: their bag,
    piece_first: torch.Tensor  # and their first id
    out: torch.Tensor  # bags x width, floats


#: variant bag_a_program
@triton.jit
def add_bag(table, ids, first, out, width: tl.constexpr, block: tl.constexpr):
    bag = tl.program_id(0)
    start = tl.load(first + bag)
    end = tl.load(first + bag + 1)
    columns = tl.arange(0, width)
    total = tl.zeros((block, width), tl.float32)
    for at in range(start, end, block):
        place = at + tl.arange(0, block)
        inside = place < end
        entry = tl.load(ids + place, mask=inside, other=0).to(tl.int64)
        rows = tl.load(
            table + entry[:, None] * width + columns[None, :], mask=inside[:, None], other=0.0
        )
        total += rows.to(tl.float32)
    tl.store(out + bag * width + columns, tl.sum(total, axis=0))


def bag_a_program(d: Ragged) -> None:
    bags, width = d.out.shape
    add_bag[(bags,)](d.table, d.ids, d.first, d.out, width=width, block=16, num_warps=4)


#: end


#: variant piece_a_program
@triton.jit
def add_piece(
    table,
    ids,
    first,
    piece_bag,
    piece_first,
    out,
    width: tl.constexpr,
    block: tl.constexpr,
    most: tl.constexpr,
):
    bag = tl.load(piece_bag + tl.program_id(0))
    start = tl.load(piece_first + tl.program_id(0))
    end = tl.load(first + bag + 1)
    end = tl.minimum(end, start + most)
    columns = tl.arange(0, width)
    total = tl.zeros((block, width), tl.float32)
    for at in range(start, end, block):
        place = at + tl.arange(0, block)
        inside = place < end
        entry = tl.load(ids + place, mask=inside, other=0).to(tl.int64)
        rows = tl.load(
            table + entry[:, None] * width + columns[None, :], mask=inside[:, None], other=0.0
        )
        total += rows.to(tl.float32)
    tl.atomic_add(out + bag * width + columns, tl.sum(total, axis=0), sem="relaxed")


def piece_a_program(d: Ragged) -> None:
    width = d.out.shape[1]
    d.out.zero_()
    add_piece[(d.piece_bag.shape[0],)](
        d.table,
        d.ids,
        d.first,
        d.piece_bag,
        d.piece_first,
        d.out,
        width=width,
        block=16,
        most=64,
        num_warps=4,
    )


#: end


def lookup_problem(book: Book, name: str, entries: int, count: int, width: int) -> None:
    def define(p: Problem) -> None:
        table = p.uniform(entries, width, low=-1, high=1)
        ids = p.integers(count, low=0, high=entries)
        d = Lookup(table, ids, p.output(count, width))
        read = entries * (1 - (1 - 1 / entries) ** count)  # entries that some id names
        p.needs(dram_bytes=4.0 * width * (read + count) + 4.0 * count)
        p.check(d.out, lambda: table.to(torch.float64)[ids.long()], relative=0.0, absolute=0.0)
        for each in (id_a_program, ids_by_column, ids_by_row, more_ids_by_row):
            p.variant(each.__name__, lambda each=each: each(d))

    book.problem(name, define)


def bags_problem(book: Book, name: str, entries: int, bags: int, size: int, width: int) -> None:
    def define(p: Problem) -> None:
        table = p.uniform(entries, width, low=-1, high=1)
        ids = p.integers(bags, size, low=0, high=entries)
        d = Bags(table, ids, p.output(bags * size, width), p.output(bags, width))
        read = entries * (1 - (1 - 1 / entries) ** (bags * size))
        p.needs(dram_bytes=4.0 * width * (read + bags) + 4.0 * bags * size)
        p.check(
            d.out,
            lambda: table.to(torch.float64)[ids.long()].sum(dim=1),
            relative=1e-5,
            absolute=1e-5,
        )
        for each in (columns_then_sums, columns_summed, rows_then_sums, rows_summed):
            p.variant(each.__name__, lambda each=each: each(d))

    book.problem(name, define)


def ragged_problem(
    book: Book, name: str, entries: int, bags: int, width: int, largest: int
) -> None:
    """`largest`: ids of four bags in the middle; the others have 8 to 24."""

    def define(p: Problem) -> None:
        table = p.uniform(entries, width, low=-1, high=1, dtype=torch.bfloat16)
        sizes = p.integers(bags, low=8, high=25, dtype=torch.int64)
        if largest:
            sizes[bags // 2 : bags // 2 + 4] = largest
        first = torch.zeros(bags + 1, dtype=torch.int64, device="cuda")
        first[1:] = torch.cumsum(sizes, dim=0)
        total = int(first[-1])
        ids = p.integers(total, low=0, high=entries)
        pieces = (sizes + 63) // 64
        piece_bag = torch.repeat_interleave(torch.arange(bags, device="cuda"), pieces)
        of_bag = torch.cumsum(pieces, dim=0) - pieces  # the first piece of each bag
        inside = torch.arange(piece_bag.shape[0], device="cuda") - of_bag[piece_bag]
        piece_first = first[piece_bag] + 64 * inside
        d = Ragged(
            table,
            ids,
            first.to(torch.int32),
            piece_bag.to(torch.int32),
            piece_first.to(torch.int32),
            p.output(bags, width),
        )
        read = entries * (1 - (1 - 1 / entries) ** total)
        p.needs(dram_bytes=2.0 * width * read + 4.0 * bags * width + 4.0 * total)

        def reference() -> torch.Tensor:
            bag_of = torch.repeat_interleave(torch.arange(bags, device="cuda"), sizes)
            sums = torch.zeros(bags, width, dtype=torch.float64, device="cuda")
            return sums.index_add_(0, bag_of, table.to(torch.float64)[ids.long()])

        p.check(d.out, reference, relative=1e-4, absolute=1e-3)
        for each in (bag_a_program, piece_a_program):
            p.variant(each.__name__, lambda each=each: each(d))

    book.problem(name, define)


def main() -> int:
    book = Book(sys.argv)
    lookup_problem(book, "lookup_f32", 262144, 262144, 128)
    bags_problem(book, "bags_f32", 262144, 16384, 8, 128)
    ragged_problem(book, "ragged_giant", 131072, 32768, 256, 8192)
    ragged_problem(book, "ragged_huge", 131072, 32768, 256, 4096)
    ragged_problem(book, "ragged_large", 131072, 32768, 256, 1200)
    ragged_problem(book, "ragged_even", 131072, 32768, 256, 0)
    return book.finish()


if __name__ == "__main__":
    sys.exit(main())
