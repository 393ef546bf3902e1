"""`keet context` shows the lines with the most samples first, with the lines that they wait for."""

from __future__ import annotations

import re
from math import fsum
from pathlib import Path

from keet.analysis.source_lines import find_hotspots
from keet.explanation.analyst import explain
from keet.ingest import read_profile
from keet.pages.context import CostedSource, context_text
from keet.profile.names import file_name
from tests.rows import each_row

SAMPLES = Path(__file__).parents[3] / "kernels_samples"
NAMES = ("page_walk", "sparse_apply", "tile_scores", "hydro_element", "softmax_rows", "gas_state")


def shown_lines(text: str) -> set[tuple[str, int]]:
    found: set[tuple[str, int]] = set()
    for file, code in re.findall(r"^(\S+) \(share of .*\):\n```\w*\n([\s\S]*?)\n```", text, re.M):
        found |= {(file, int(number)) for number in re.findall(r"^ *(\d+) ", code, re.M)}
    return found


@each_row("name", NAMES, few=1)
def test_no_line_with_more_samples_is_left_out(name: str) -> None:
    path = next((SAMPLES / name).glob("slow.ncu-rep*"))
    profile = read_profile(path)
    explanation = explain(profile, profile.launches[:1], 5)
    each = explanation.launches[0]
    source = CostedSource(each, find_hotspots(each.launch))
    shares = {(file_name(p.file), p.line): p.share for p in source.hottest}
    not_ranked = {(file_name(p.file), p.line) for f in each.findings for p in f.locations}
    for hot in source.hottest:
        not_ranked |= {(file_name(file), line) for file, line in source.awaited_lines(hot)}
    covered = []
    for budget in (500, 1000, 2000):
        shown = shown_lines(context_text(explanation, budget))
        left_out = max((share for line, share in shares.items() if line not in shown), default=0)
        ranked = [shares.get(line, 0) for line in shown - not_ranked]
        assert all(share >= left_out for share in ranked)
        covered.append(fsum(shares.get(line, 0) for line in shown))
    assert covered == sorted(covered)
    assert covered[0] > 0.15
    assert covered[1] > 0.5
    assert covered[2] > 0.6
