"""A page has no number that its document lacks: each is in a text of the JSON, or is one of its
values as keet prints them. Only sums of parts that share a row ("other", "2 others") are the page's
own."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.conftest import Keet
from tests.rows import mostly_slow

_NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?")
_CODE = re.compile(r"(?s)```.*?```|`[^`]*`")
_SUM_OF_A_ROW = re.compile(r"^\s*(?:- .*\): other|\| \d+ others? )")
_PRINTED = ("{:.0f}", "{:.1f}", "{:.2f}", "{:,.0f}", "{:.3g}", "{:.4g}")


@pytest.mark.parametrize(
    "command",
    mostly_slow(
        [
            "explain kernels_samples/matrix_flip/slow.ncu-rep",
            "explain tests/data/reports/tour_full.ncu-repz --all",
            "explain tests/data/runs/growing.ncu-repz",
            "diff tests/data/reports/pipeline_before.ncu-repz tests/data/reports/pipeline_after.ncu-repz",
        ],
        few=2,
    ),
)
def test_numbers_of_a_page_are_in_its_document(command: str, keet: Keet) -> None:
    words = [*command.split(), *(["--no-model", "--no-sass"] if "explain" in command else [])]
    known = _numbers(json.loads(keet(*words, "--format", "json").out))
    page = _CODE.sub("", keet(*words, "--format", "markdown").out)
    lines = [line for line in page.splitlines() if not _SUM_OF_A_ROW.match(line)]
    strange = {n: line for line in lines for n in _NUMBER.findall(line) if n not in known}
    assert strange == {}
    assert len(_NUMBER.findall(page)) > 20


def _numbers(value: Any) -> set[str]:
    """In texts, and as values are printed: in units of thousands, as shares in per cent."""
    if isinstance(value, dict):
        return {n for pair in value.items() for each in pair for n in _numbers(each)}
    if isinstance(value, list):
        return {number for each in value for number in _numbers(each)}
    if isinstance(value, str):
        return {*_NUMBER.findall(value)}
    if value is None or isinstance(value, bool):
        return set()
    scaled = [of * 1000.0**power for of in (value, 100 * value) for power in range(-4, 4)]
    return {form.format(abs(each)) for each in scaled for form in _PRINTED}
