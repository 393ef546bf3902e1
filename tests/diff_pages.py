"""Reports that tests compare, and what `keet diff` says of them."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from keet.comparison.compare import Difference, compare
from keet.comparison.same_kernel import Side, SideCapture
from keet.formats.html.blocks import reader as html_reader
from keet.pages.blocks import Block, Heading, Item, Items, Notice, Table, Text, plain
from keet.pages.diff import diff_page
from keet.profile import Profile
from keet.report import read_profile
from tests.conftest import REPORTS, TESTS, Keet
from tests.json_documents import check_document
from tests.kept_reports import sample_report
from tests.page_blocks import every_block

BEFORE, AFTER, AGAIN, DOUBLE, WARM = (
    REPORTS.relative_to(TESTS.parent) / f"pipeline_{name}.ncu-repz"
    for name in ("before", "after", "again", "double", "warm")
)


def pair(name: str) -> tuple[Path, Path]:
    return sample_report(name, "slow"), sample_report(name, "fast")


def document(keet: Keet, *arguments: object) -> dict[str, Any]:
    """Of `keet diff`, which may be stopped by its gate."""
    result = keet("diff", *arguments, "--format", "json")
    assert result.err == ""
    told: dict[str, Any] = json.loads(
        result.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON")
    )
    check_document("diff", told)
    return told


def caveats(told: dict[str, Any]) -> dict[str, str]:
    """Reasons about comparability in a document: their ids and how much they weigh."""
    return {note["id"]: note["severity"] for note in told["comparability"]["notes"]}


def compared(before: Profile, after: Profile) -> Difference:
    return compare(*(Side((SideCapture(each, each.launches),)) for each in (before, after)))


profile = cache(read_profile)


@cache
def difference(name: str) -> Difference:
    """Of a sample, or of `pipeline`, the tests' own reports."""
    return compared(*map(profile, (BEFORE, AFTER) if name == "pipeline" else pair(name)))


def html_blocks_of(found: Difference, top: int = 5) -> list[Block]:
    """Of the HTML page, which has most; also within folds and parts."""
    return [*every_block(diff_page(found, html_reader(), top).blocks)]


def tables(blocks: Sequence[Block]) -> dict[str, Table]:
    return {block.name: block for block in blocks if isinstance(block, Table)}


def cells(row: Sequence[Any]) -> list[str]:
    return [plain(getattr(cell, "words", cell)) for cell in row]


def items(blocks: Sequence[Block]) -> list[Item]:
    return [each for block in blocks if isinstance(block, Items) for each in block.items]


def labelled(blocks: Sequence[Block]) -> dict[str, str]:
    """Items by their label: `Why`, `Noise`."""
    return {plain(each.label): plain(each.words) for each in items(blocks)}


def text(blocks: Sequence[Block]) -> str:
    """What headings, paragraphs, remarks and lists say."""
    said = [each.words for each in items(blocks)]
    said += [block.words for block in blocks if isinstance(block, Heading | Text | Notice)]
    return " ".join(map(plain, said))
