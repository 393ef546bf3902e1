"""Writes the table of true values, evals/sass/reuse_truth.toml, from a replay, and compares it with
one."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.sass.replay.program import Array, Loads, Replayed

TABLE = Path(__file__).parents[1] / "reuse_truth.toml"

_HEADER = """\
# How many bytes the global loads of kernels request, and how many different bytes they touch.
# Written by `python -m evals.sass.replay --write`, which replays the index expressions of each
# kernel for every thread of the launch. Do not edit by hand.
#
# kernel.load: the loads of one pointer on the same source lines (those of the report's line table).
# kernel.pointer: all loads of the pointer. Bytes that loads of several lines touch count once here.
# pointer, argument: name and number (from 0) of the kernel parameter. Where the parameter is a
#     struct, `offset` is the place of the pointer in it, in bytes.
# requested_bytes: threads that execute the load x bytes per thread, summed over all executions.
# distinct_bytes: different bytes among them.
"""


def to_toml(kernels: Sequence[Replayed]) -> str:
    return "\n".join([_HEADER, *("\n".join(_kernel_lines(each)) + "\n" for each in kernels)])


def differences(kernels: Sequence[Replayed]) -> Iterator[str]:
    """One message per kernel whose entry differs from the replay."""
    stored = _by_kernel(tomllib.loads(TABLE.read_text()))
    replayed = _by_kernel(tomllib.loads(to_toml(kernels)))
    for key in stored.keys() | replayed.keys():
        name = f"{key[0]} #{key[1]}"
        if key not in stored:
            yield f"{name}: not in the table"
        elif key not in replayed:
            yield f"{name}: in the table, but not replayed"
        elif stored[key] != replayed[key]:
            yield f"{name}: the table has {stored[key]}, the replay gives {replayed[key]}"


def _by_kernel(table: Mapping[str, Any]) -> dict[tuple[str, int], Any]:
    return {(each["report"], each["launch"]): each for each in table["kernel"]}


def _kernel_lines(kernel: Replayed) -> Iterator[str]:
    yield "[[kernel]]"
    yield f"report = {json.dumps(kernel.report)}"
    yield f"launch = {kernel.launch}"
    yield f"name = {json.dumps(kernel.name)}"
    yield f"how = {json.dumps(kernel.how)}"
    for array in kernel.arrays:
        for loads in array.loads:
            yield "[[kernel.load]]"
            yield from _pointer_lines(array)
            yield f"lines = {list(loads.lines)}"
            yield from _byte_lines(loads)
    for array in kernel.arrays:
        yield "[[kernel.pointer]]"
        yield from _pointer_lines(array)
        yield from _byte_lines(array)


def _pointer_lines(array: Array) -> Iterator[str]:
    yield f"pointer = {json.dumps(array.pointer)}"
    yield f"argument = {array.argument}"
    if "." in array.pointer:
        yield f"offset = {array.offset}"


def _byte_lines(counts: Loads | Array) -> Iterator[str]:
    yield f"requested_bytes = {counts.requested_bytes}"
    yield f"distinct_bytes = {counts.distinct_bytes}"
