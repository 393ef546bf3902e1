"""What sentences assert in words, judged by the facts of real reports."""

from __future__ import annotations

from functools import cache

from keet.evidence import Sentence
from keet.explanation.analyst import explain
from keet.explanation.known_facts import KnownFact, known_facts
from keet.report import read_profile
from keet.verification.fact_check import judge_words
from kernels_samples.samples import report_of
from tests.rows import each_row

SENTENCES = """
score_tiles  + L1 is the busiest unit.
score_tiles  - DRAM is the busiest unit.
score_tiles  - The busiest unit is DRAM.
score_tiles  + DRAM is nearly idle.
score_tiles  + DRAM is far from saturated.
score_tiles  - DRAM is saturated.
score_tiles  + Neither DRAM nor L2 is saturated.
score_tiles  - L2 is near its peak.
score_tiles  - The issue slots are saturated.
stencil_march ? The ALU pipe is saturated.
stencil_march - The ALU pipe is idle.
score_tiles  - The kernel is bound by FP64.
score_tiles  - The kernel is memory-latency bound.
score_tiles  + The kernel is not DRAM-bound.
score_tiles  - It is compute-bound.
score_tiles  + L1 is the bottleneck.
score_tiles  - Occupancy is full.
score_tiles  + Occupancy is low.
score_tiles  + Occupancy is limited by registers.
score_tiles  - Occupancy is limited by shared memory.
score_tiles  ? Occupancy is not the limit here.
score_tiles  + Bank conflicts serialize the shared loads.
score_tiles  - There are no bank conflicts.
score_tiles  - The padding avoids bank conflicts.
score_tiles  . The rows are padded to avoid bank conflicts.
score_tiles  - Spills add traffic.
score_tiles  + The kernel runs without spills.
score_tiles  . More registers per thread would spill.
score_tiles  - Warps diverge heavily.
score_tiles  + Hardly any warps diverge.
score_tiles  + All threads of a warp are active.
score_tiles  + Almost all loads miss L1.
score_tiles  - Almost all loads hit L1.
score_tiles  + The L2 hit rate is high.
score_tiles  - Most loads miss in L2.
score_tiles  + The loads are coalesced.
score_tiles  - The loads are not coalesced.
score_tiles  ? The stores are not coalesced.
score_tiles  - Warps mostly wait for global loads.
score_tiles  + Warps mostly wait for shared memory.
score_tiles  + slow.cu:45 is the hottest line.
score_tiles  - Most samples fall on line 18.
score_tiles  - The kernel does not use shared memory.
score_tiles  - It computes in FP64.
score_tiles  + It executes no FP64 instructions.
score_tiles  - Atomics serialize the updates.
score_tiles  - The grid does not fill the GPU.
score_tiles  + The block size is a multiple of 32.
score_tiles  . If DRAM is saturated, smaller types help.
score_tiles  . The edit would make DRAM the bottleneck.
score_tiles  . Use shared memory for the queries.
score_tiles  . Bank conflicts are not hidden by other warps.
score_tiles  - There are neither bank conflicts nor spills.
score_tiles  . Neither the bank conflicts nor the barriers are hidden.
score_tiles  . A reader takes the kernel for DRAM-bound.
score_tiles  + L1 is busier than L2.
score_tiles  - DRAM is busier than L1.
key_count    + L2 is the bottleneck.
key_count    ? L2 is saturated.
key_count    + The atomics on few bins contend in L2.
key_count    - The kernel uses no atomics.
key_count    - Bank conflicts serialize the shared loads.
key_count    - DRAM bandwidth limits the kernel.
key_count    + The blocks are even.
sparse_apply - The blocks are even.
sparse_apply + The SMs are unevenly loaded.
sparse_apply + The load imbalance leaves SMs idle.
sparse_apply - The work is balanced.
sparse_apply - The loads are coalesced.
sparse_apply + The stores are fully coalesced.
sparse_apply . The loads of `x` are coalesced.
sparse_apply + No unit is near its peak.
sparse_apply - The grid is too small.
sparse_apply + Warps mostly wait for global loads.
softmax_rows + Spills add traffic.
softmax_rows - There are hardly any spills: no local memory is used.
softmax_rows - The kernel runs without spills.
softmax_rows + L2 is busier than any pipe, and spilled registers go through it.
softmax_rows - Occupancy is full.
field_axpy   + DRAM is saturated.
field_axpy   + DRAM is the busiest unit.
field_axpy   + The kernel is memory-bound.
field_axpy   - The kernel is latency-bound.
field_axpy   - DRAM is underutilized.
field_axpy   - No unit is saturated.
field_axpy   + Occupancy is high.
field_axpy   - DRAM traffic is mostly writes.
field_axpy   + DRAM mostly reads.
row_norms    + The grid is too small.
row_norms    - The grid fills the GPU.
row_norms    + The L1 hit rate is near zero.
row_norms    ? Bank conflicts are few.
gas_state    + The FP64 arithmetic is the problem.
gas_state    ? The FP64 pipe is the busiest unit.
gas_state    + The FP64 pipe is the busiest pipe.
gas_state    ? The kernel is FP64-bound.
gas_state    - The tensor cores are saturated.
decay_ratios + Warps diverge at the branch.
decay_ratios - All threads of a warp are active.
scan_rows    + Warps wait at the barrier.
scan_rows    - Warps hardly wait at barriers.
scan_rows    + The barrier is the largest stall.
token_mix    + The tensor cores are near their peak.
token_mix    - The tensor cores are idle.
"""
"""+: supported, -: contradicted, ?: asserted but not decided, .: asserts nothing of the run."""


@cache
def facts_of(sample: str) -> tuple[KnownFact, ...]:
    profile = read_profile(report_of(sample))
    return known_facts(explain(profile, profile.launches, 5).launches[0])


def verdict(sample: str, sentence: str) -> str:
    holds = [each.holds for each in judge_words(sentence, facts_of(sample))]
    if not holds:
        return "."
    return "-" if False in holds else "+" if True in holds else "?"


@each_row("line", SENTENCES.strip().splitlines(), few=12)
def test_assertions_are_judged_by_facts(line: str) -> None:
    sample, expected, sentence = line.split(maxsplit=2)
    assert verdict(sample, sentence) == expected


@each_row(
    ("limits", "spilled", "holds"),
    [(False, False, False), (True, False, None), (False, True, None)],
)
def test_limited_by_registers(limits: bool, spilled: bool, holds: bool | None) -> None:
    """Wrong only where they neither limit the occupancy nor are spilled."""

    def fact(topic: str, word: str, *, is_true: bool) -> KnownFact:
        sides = (frozenset([word]), frozenset[str]())
        return KnownFact(topic, word, Sentence(), *(sides if is_true else sides[::-1]))

    facts = [
        fact("occupancy.limit", "registers", is_true=limits),
        fact("spills", "none", is_true=not spilled),
    ]
    (judged,) = judge_words("The kernel is limited by register pressure.", facts)
    assert judged.holds is holds
