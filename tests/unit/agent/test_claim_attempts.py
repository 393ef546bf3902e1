"""Attempts to take the headline with a claim that does not hold, or that has nothing to do with its
reasons. Each is made on a real report, as a model would write it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tests.rows import each_row
from tests.unit.agent.conversations import Talk, talk


class Attempt(NamedTuple):
    sample: str
    finding: str
    because: list[str]
    claims: Sequence[dict[str, str]] = ()
    objects_to: str = ""
    objection: Sequence[str] = ()


def claim(kind: str, of: str = "", needed: str = "", removed: str = "") -> dict[str, str]:
    return {"kind": kind, "of": of, "needed": needed, "removed": removed}


SHARE = "achieved_occupancy_pct"
ATTEMPTS = {
    "the blocks are even, because there are many": Attempt(
        "sparse_apply/slow", "latency_bound", ["grid_size"],
        [claim("waiting", "all", removed="0.9")], "load_imbalance", ["grid_size > 100"],
    ),
    "a large share made of names that do not matter": Attempt(
        "decay_ratios/slow", "integer_overhead", ["inst_executed"],
        [claim("instructions", "all", removed="l2_hit_rate_pct")],
    ),
    "far too few bytes from L1": Attempt(
        "matrix_flip/slow", "uncoalesced_global", ["global_load_sectors"],
        [claim("bytes", "global", "dram_bytes_read / 16")],
    ),
    "an objection with a true fact about something else": Attempt(
        "lookup_records/slow", "latency_bound", ["stall_share_long_scoreboard > 10"],
        [claim("waiting", "long_scoreboard", removed="0.5 * stall_share_long_scoreboard")],
        "uncoalesced_global", ["grid_size > 100", "duration > 1 us"],
    ),
    "most work of a pipe that is idle": Attempt(
        "matrix_flip/slow", "pipe_saturated", ["pipe_fma_pct"],
        [claim("instructions", "FMA", removed="1 - pipe_fma_pct")],
    ),
    "more blocks for a full grid": Attempt(
        "decay_ratios/slow", "small_grid", ["grid_size", "waves_per_sm"],
        [claim("parallelism", "blocks", "16 * grid_size")],
    ),
    "waiting that is not the main one": Attempt(
        "scan_rows/slow", "latency_bound", ["stall_share_wait"],
        [claim("waiting", "wait", removed="1 - stall_share_wait")],
    ),
    "fewer launches of a long kernel": Attempt(
        "tile_smooth/slow", "redundant_traffic", ["dram_bytes_read", "duration"],
        [claim("launches", removed="1 - 1 / waves_per_sm")],
    ),
    "a narrower type where there are no floats": Attempt(
        "key_count/slow", "low_precision_possible", ["pipe_fma_pct"],
        [claim("precision", "FP16"), claim("precision", "FP32")],
    ),
    "nearly all work is redundant, by a constant that has nothing to do with it": Attempt(
        "score_tiles/slow", "redundant_traffic", ["dram_bytes_read"],
        [claim("redundant", removed="1 - 1 / kTile")],
    ),
    "a byte per sector": Attempt(
        "xs_lookup/slow", "redundant_traffic", ["l2_hit_rate_pct > 20"],
        [claim("bytes", "L2", "l2_l1_read_sectors * 1 B")],
    ),
    "no reason at all, but a number in the text": Attempt(
        "half_dense/slow", "redundant_traffic", [], [claim("bytes", "global", removed="0.9")],
    ),
    "more removed of another kind than a certain cause costs": Attempt(
        "score_tiles/slow", "pipe_saturated", ["issue_active_pct"],
        [claim("instructions", "all", "inst_executed / kTile")],
    ),
    "all work is redundant, at a roofline": Attempt(
        "field_axpy/slow", "redundant_traffic", ["l2_hit_rate_pct"],
        [claim("redundant", removed="1 - l2_hit_rate_pct / 10")],
    ),
}  # fmt: skip


def tried(attempt: Attempt) -> Talk:
    told = {"text": "It is that: {duration}.", "because": attempt.because}
    cause = {"finding": attempt.finding, **told, "claims": [*attempt.claims]}
    against = {"finding": attempt.objects_to, "text": "No.", "because": attempt.objection}
    objections = [against] if attempt.objects_to else []
    said = {"summary": "It is slow.", "causes": [cause], "objections": objections}
    return talk(said, {"corrections": []}, sample=attempt.sample)


@each_row("name", ATTEMPTS, few=4)
def test_no_attempt_takes_the_headline(name: str) -> None:
    done = tried(ATTEMPTS[name])
    before = done.before.launches[0]
    assert done.each.verdict == before.verdict
    assert not done.model_explanation.leads
    own = [finding for finding in done.each.findings if finding.amounts_by != "model"]
    assert [each.id for each in own][:1] == [each.id for each in before.findings][:1]
