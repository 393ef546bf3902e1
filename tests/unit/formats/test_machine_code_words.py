"""Texts about the machine-code analysis."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from keet.analysis.code_names import FormWords, sass_text
from keet.analysis.hotspots.examined import purpose_shares
from keet.analysis.machine_code.analyses.purpose import Purpose
from keet.analysis.machine_code.instructions.instruction import parse
from keet.analysis.machine_code.instructions.opcodes import Role
from keet.analysis.machine_code.polynomials.polynomial import Polynomial, Symbol
from keet.pages.hotspots import distinct_text, lines_text, mix_text, purposes_text
from keet.profile import Location
from tests.rows import each_row


def form_words(address: Callable[[int], str]) -> FormWords:
    """The instruction at position 1 is a load, and a parameter has a name."""
    instructions = [SimpleNamespace(role=role, address=16 * n) for n, role in enumerate(ROLES)]
    code: Any = SimpleNamespace(
        program=SimpleNamespace(code=instructions),
        pointer_name=lambda pointer: {"param+0x10": "width"}.get(pointer, pointer),
    )
    return FormWords(code, address)


ROLES = (Role.INTEGER, Role.LOAD)


def form_of(*terms: tuple[int, str]) -> Polynomial:
    return Polynomial(
        {
            tuple(Symbol("any", name, order=place) for name in names.split("*") if name): factor
            for place, (factor, names) in enumerate(terms)
        }
    )


@each_row(
    ("form", "text"),
    [
        (form_of(), "0"),
        (form_of((16, "")), "16"),
        (form_of((4, "tid.x"), (-1, "ctaid.y")), "4*tid.x - ctaid.y"),
        (form_of((4, "param+0x10*loop0")), "4*width*loop0"),
        (form_of((2, "(tid.x + 4 ctaid.x mod 32)")), "2*(tid.x + 4*ctaid.x mod 32)"),
        (form_of((8, "(tid.x >> 5)")), "8*(tid.x >> 5)"),
        (form_of((4, "R6@1"), (4, "R7@0")), "4*loaded[0x0010] + 4*result[0x0000]"),
        (form_of((1, "choice(1, ('a', 2))*last loop0")), "choice1*last(loop0)"),
        (form_of((1, "lost v21"), (2, "v3")), "unknown1 + 2*unknown2"),
        (form_of((1, "min(a...")), "an expression of parameters"),
    ],
)
def test_address_forms_as_text(form: Polynomial, text: str) -> None:
    assert form_words(lambda address: f"{address:#06x}").text(form) == text


def test_only_words_that_were_used_are_explained() -> None:
    words = form_words(str)
    words.text(form_of((4, "tid.x"), (4, "R6@1")))
    assert [label for label, _ in words.legend] == ["tid, ctaid", "loaded[X]"]


def test_bounds_shares_and_files(wording) -> None:
    assert distinct_text(1000, "bound", 4000, "") == "at most 1 kB (4.0x)"
    assert distinct_text(1000, "estimate", 25_000, "") == "about 1 kB (25x)"
    wording(distinct_text(None, None, 25_000, "depends on loaded data"))
    assert distinct_text(1000, "bound", None, "") == "at most 1 kB"
    pairs = [(Purpose.ADDRESS, 0.6), (Purpose.VALUE, 0.397), (Purpose.SYNC, 0.003)]
    shares = purpose_shares(pairs)
    wording(mix_text(shares))
    assert purposes_text(shares, 3) == "address 60%, value 40%"
    lines = [Location("/a/k.cu", 3), Location("/a/k.cu", 9), Location("/b/m.h", 1)]
    assert lines_text(lines) == "k.cu:3, 9, m.h:1"
    assert lines_text([*lines, Location("/a/k.cu", 4)]) == "k.cu:3, 9, m.h:1, …"


@each_row(("text", "wanted"), [
    ("@!P0  BRA 0x7f4a2d7a1430", "@!P0 BRA 0x0430"),
    ("BRA `(.L_x_0) 0x7f4a2d7a1d40", "BRA `(.L_x_0) 0x0d40"),
    ("BSSY B2, 0x7f4a2d7a12e0 ;", "BSSY B2, 0x02e0"),
    ("CALL.REL.NOINC 0x7f4a2d7a2010", "CALL.REL.NOINC 0x7f4a2d7a2010"),  # another function
    ("MOV R2, 0x7f4a2d7a1430", "MOV R2, 0x7f4a2d7a1430"),  # a number
    ("EXIT", "EXIT"),
    ("", ""),
])  # fmt: skip
def test_targets_of_branches_are_offsets(text: str, wanted: str) -> None:
    starts = [0x7F4A2D7A0000, 0x7F4A2D7A1000, 0x7F4A2D7A2000]
    assert sass_text(parse(0x7F4A2D7A1100, text), starts) == wanted
