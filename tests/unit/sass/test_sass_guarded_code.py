"""Which code only part of the threads reach, in small programs with counts."""

from __future__ import annotations

from collections.abc import Sequence

from keet.analysis.sass.analyses.guarded_code import Guarded, guarded_code
from keet.analysis.sass.flow.program import SassProgram
from keet.profile import Location
from tests.rows import each_row
from tests.unit.sass.assembled import assembled


def guarded(
    text: str, warps: Sequence[int], threads: Sequence[int], passed: Sequence[int] = ()
) -> list[Guarded]:
    """`passed`: threads whose predicate is on, if not all. Everything stands at one line."""
    texts = assembled(text)
    reached = dict(zip(texts, threads, strict=True))
    program = SassProgram.of(texts, dict(zip(texts, warps, strict=True)))
    on = dict(zip(texts, passed or threads, strict=True))
    return guarded_code(program, reached, on, lambda _: Location("k.cu", 7))


IF = "@P0 BRA end\nFADD R1, R1, R1\nSTG.E [R2.64], R1\nend: EXIT"
IN_LOOP = "again: @P1 BRA on\nSTG.E [R2.64], R1\non: FADD R1, R1, R1\n@P0 BRA again\nEXIT"
LOOP_BEHIND = "@P0 BRA end\nagain: STG.E [R2.64], R1\n@P1 BRA again\nend: EXIT"
STORES = "@P0 STG.E [R2.64], R1\n@P0 STG.E [R4.64], R1\nEXIT"


@each_row("text, warps, threads, passed, entering, effects", [
    (IF, [4, 1, 1, 4], [128, 24, 24, 128], (), (128, 24, 4, 1), (2,)),
    (IF, [4, 4, 4, 4], [128] * 4, (), (128, 128, 4, 4), (2,)),  # all enter
    ("@P0 EXIT\nSTG.E [R2.64], R1\nEXIT", [4, 2, 2], [128, 64, 64], (), (128, 64, 4, 2), (1,)),
    (IN_LOOP, [12, 3, 12, 12, 4], [384, 30, 384, 384, 128], (), (384, 30, 12, 3), (1,)),
    # Threads that enter a loop count once.
    (LOOP_BEHIND, [4, 20, 20, 4], [128, 600, 600, 128], [88, 600, 560, 128], (128, 40, 4, None), (1,)),
    (STORES, [4, 4, 4], [128] * 3, [5, 5, 128], (128, 5, 4, None), (0, 1)),
])  # fmt: skip
def test_threads_and_warps_that_enter(text, warps, threads, passed, entering, effects) -> None:
    (found,) = guarded(text, warps, threads, passed)
    assert (found.threads, found.entering, found.warps, found.warps_entering) == entering
    assert (found.effects, found.loop) == (effects, 0 if text == IN_LOOP else None)


def test_where_none_enters_or_no_condition_is() -> None:
    assert guarded(IF, [4, 1, 1, 4], [128, 24, 24, 128])[0].instructions == 2
    (none_enters,) = guarded(IF, [4, 0, 0, 4], [128, 0, 0, 128])
    assert none_enters.is_one_way
    assert (none_enters.blocks, none_enters.effects) == ((1,), ())
    either = "@P0 BRA then\n@!P1 BRA end\nthen: STG.E [R2.64], R1\nend: EXIT"  # `if (a || b)`
    found = guarded(either, [4, 4, 4, 4], [128, 96, 64, 128])
    (store,) = (each for each in found if each.effects)
    assert (store.decided, store.threads, store.entering) == ((0, 1), 128, 64)
    text = "again: FADD R1, R1, R1\n@P0 BRA again\nSTG.E [R2.64], R1\nEXIT"
    assert not guarded(text, [12, 12, 4, 4], [200, 200, 128, 128])
    text = "@P0 BRA end\nCALL.REL.NOINC slow\nend: STG.E [R2.64], R1\nEXIT\n"
    text += "slow: FADD R1, R1, R1\nRET.REL.NODEC R6 0x0"
    assert not guarded(text, [4, 1, 4, 4, 1, 1], [128, 9, 128, 128, 9, 9])
