"""Pieces that make a text hard to read when they are repeated: each is the worst case of a pattern
or of a loop that reads prose."""

import time
from collections.abc import Callable

TIMES = 16

PROSE = [
    "{l2_busy} ", "{a} ", "{l2_busy > dram_busy}, ", "{", "}", "`", "`a` ", "a-", "a.", "a/", "1", "1,", "-", "_", "*", "a ", "a",
    "\n", "\n ", "\n- a", "1. a\n", ". ", ".)", "flip.cu:5, ", "flip.cu:5-", "lines 3, ", "the same ", "two ", "x82 ", "&#56;", "½",
    "&", "<b", "<b>", "is more ", "\\", "[](", "O(", "no more ", "é", "é ", "a_1.", "most a ", "I ", "hit rate is ", "0x",
]  # fmt: skip
"""For texts by reference (`keet.prose`)."""

CLAIMS = [
    "-", "\n", "`", "a<", "1,", "1x2 ", "9", "a.b:", "(", "E1 ", "0.", " ", "# ", "|1|", "L2 5 % ", "1e400 us ",
]  # fmt: skip
"""For texts that are verified (`keet.verification`)."""

SOURCE = [
    "template<", "int a=1;", "[&](){", "void f(){k<<<1,2>>>(3);}\n", "k<", "(", "{", '"', "#if A\n{\n", "const int a = b;\n", "/*",
    "def k():\n", "__device__ int f(){f(1);}\n", "struct V{};\n__device__ V operator+(V a){}\n",
]  # fmt: skip
"""For source text that a model is shown (`keet.agent.source`)."""

EDITED = ["a", "a b\n", "x = y;\n", "/*", "(;", "...\n", "\n", "{\n", "// a\n", "\t\n"]
"""For source text that a model edits (`keet.agent.edits`)."""


def repeated(piece: str, length: int) -> str:
    return piece * (length // len(piece))


def growth(read: Callable[[str], object], piece: str, length: int = 500) -> float:
    """By how much more than the text grows the processor's time to read it: 1 if it is linear, 16 if
    it is quadratic. Texts are short, so that a quadratic one is noticed within seconds."""

    def seconds(text: str) -> float:
        start = time.process_time()
        read(text)
        return time.process_time() - start

    short = (f"{n} {repeated(piece, length)}" for n in range(3))  # some readers remember texts
    return seconds(repeated(piece, TIMES * length)) / min(map(seconds, short)) / TIMES
