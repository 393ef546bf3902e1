"""Widths of global accesses: bytes per thread, distance between lanes, loads that could be one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from keet.analysis.sass.forms import Form
from keet.analysis.sass.program import Program
from keet.analysis.sass.reuse import Access

WIDEST = 16
"""Bytes of the widest access of one thread, up to Hopper."""
_ALLOCATION = 256
"""Bytes to which cudaMalloc aligns: a pointer argument is taken to be aligned so."""


class Merge(NamedTuple):
    """Accesses of one thread to consecutive bytes, which one wider access could make."""

    positions: tuple[int, ...]
    width: int
    """Bytes of each access today."""
    merged_width: int
    """Bytes of the access that could replace them."""
    is_aligned: bool | None
    """Whether the first address is a multiple of that. `None`: depends on unknown numbers."""


def lane_stride(form: Form) -> int | None:
    """Bytes between the accesses of neighbouring threads; `None` where it is not one number."""
    found = 0
    for product, coefficient in form.terms.items():
        if not any("tid.x" in symbol.depends for symbol in product):
            continue
        if len(product) != 1 or product[0].kind not in ("tid", "mod"):
            return None
        if product[0].kind == "mod" and "tid.x" not in product[0].name:
            return None
        found += coefficient
    return found


def merges(program: Program, found: Sequence[Access]) -> list[Merge]:
    """Runs of narrow accesses in one block that touch consecutive bytes per thread."""
    groups: dict[object, list[Access]] = {}
    for access in found:
        if access.kind not in ("load", "store") or access.width >= WIDEST:
            continue
        block = program.flow.block_of[access.position]
        guard = program.code[access.position].guard
        varying = tuple(item for item in access.form.key if item[0])
        key = (block, access.kind, access.pointer, access.width, guard, varying)
        groups.setdefault(key, []).append(access)
    result = [merge for group in groups.values() for merge in _runs(group)]
    return sorted(result, key=lambda merge: merge.positions)


def _runs(group: Sequence[Access]) -> list[Merge]:
    by_offset = {access.form.constant: access for access in group}
    offsets = sorted(by_offset)
    width = group[0].width
    runs: list[list[int]] = []
    for offset in offsets:
        if runs and offset == runs[-1][-1] + width:
            runs[-1].append(offset)
        else:
            runs.append([offset])
    found = []
    for run in runs:
        wide = min(WIDEST, width * (1 << (len(run).bit_length() - 1)))
        if wide > width:
            own = tuple(by_offset[offset].position for offset in run)
            aligned = _is_aligned(group[0].form, run[0], wide)
            found.append(Merge(own, width, wide, aligned))
    return found


def _is_aligned(form: Form, offset: int, width: int) -> bool | None:
    common = math.gcd(offset, _ALLOCATION)
    for product, coefficient in form.terms.items():
        if not product:
            continue
        if coefficient % width and any(symbol.is_uniform for symbol in product):
            return None
        common = math.gcd(common, coefficient)
    return common % width == 0
