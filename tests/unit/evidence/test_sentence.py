"""Sentences print numbers from evidence only, and know which parts are numbers."""

from __future__ import annotations

import ast
import copy
import pickle
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from string import Formatter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.analysis.hardware.ceilings import spoken_unit
from keet.catalog import stalls
from keet.evidence import Evidence, Reference, Sentence, constant, counted
from keet.evidence.digits import number_in
from keet.findings import findings
from tests.rows import each_row

ROOT = Path(__file__).parents[3]
SHARE = Evidence("excess_share#0", "excess_share", 74.96, "%", "excess")
SECTORS = Evidence("sectors#0", "sectors", 33_554_432, "sector", "sectors")
WARP = constant(32, "", "threads of a warp")
CLAUSE = Sentence("{share:.0f} of the {sectors}s", share=SHARE, sectors=SECTORS)


@each_row("words", [
    "fewer than 32 threads", "at 82% of peak", "1.5x", "a tile of 32x32", "`82`", "x83 of it", "hit.rate:82", "٣ sectors",
    "½ of it", "n² rows", "&#56; rows", "v2.1", "8**2**", "kernel_7", "3", "flip.cu:5 sectors",
])  # fmt: skip
def test_words_with_a_number_of_their_own_are_refused(words: str) -> None:
    with pytest.raises(ValueError, match="print numbers from evidence"):
        Sentence(words)
    assert Sentence("It has {words}.", words=words) == f"It has {words}."  # a name of a report


@each_row("words", [
    "L2, L1TEX, FP64, HBM3e, sm_90 and an H200", "`float4` or float4", "LDG.E.128, HMMA.16816.F32, cp.async and STS", "-G and -O3",
    "file.cu:7 and a/b.cuh:12", "128-bit loads of 32-byte sectors in a 2-D grid", "two of three, twice, half and ten percent", "",
    "keet can't tell – naïve “quotes” → µs", "{{braces}}", "__half2, uint32_t and log2f",
])  # fmt: skip
def test_names_with_digits_and_number_words_are_allowed(words: str) -> None:
    assert Sentence(words) == words.replace("{{", "{").replace("}}", "}")


def test_numbers_without_evidence_and_values_that_are_not_given_are_refused() -> None:
    for value in (82, 0.5, None, ("82",)):
        with pytest.raises(TypeError, match="printed from evidence"):
            Sentence("{value} of peak", value=value)
    with pytest.raises(KeyError, match="share"):
        Sentence("{share} of peak")


@given(
    st.floats(0, 1e12) | st.integers(0, 2**40),
    st.sampled_from(["", "%", "byte", "ns", "sector", "inst/cycle"]),
    st.sampled_from(["", ".0f", ".1f", ".2f"]),
)
def test_numbers_are_printed_as_in_an_f_string(value: float, unit: str, form: str) -> None:
    piece = Evidence("a#0", "a", value, unit, "label")
    assert Sentence("about {n:" + form + "}s.", n=piece) == f"about {piece:{form}}s."


@each_row("value, unit, spec, told", [
    (61.4, "%", ".0f", "61%"),
    (0.25, "%", ".0f", "0.2%"),
    (0.8, "%", ".0f", "0.8%"),
    (0.97, "%", ".0f", "1%"),
    (0.0031, "%", ".0f", "0.003%"),
    (1e-9, "%", ".0f", "0%"),
    (-0.2, "%", ".0f", "-0%"),
    (99.65, "%", ".0f", "99.7%"),
    (99.97, "%", ".0f", "100%"),
    (101.3, "%", ".0f", "101%"),
    (0.0023, "", ".2f", "0.002"),
    (4.66, "", ".1f", "4.7"),
    (88021.3, "", ".1f", "88,021"),
    (1234.5, "us", ".1f", "1,234 us"),
    (12.34, "%", ".1f", "12.3%"),
    (float("nan"), "%", ".0f", "nan%"),
    (1234.0, "us", "base", "1.23 ms"),
    (400.0, "", "count", "400"),
    (2.5, "", "count", "2.5"),
    (0.01, "%", "share", "<0.1%"),
    (12.4, "%", "share", "12%"),
    (12.34, "x", "speedup", "12.3x"),
    (12.34, "x", "times", "12x"),
])  # fmt: skip
def test_numbers_are_formatted_for_reading(value: float, unit: str, spec: str, told: str) -> None:
    assert f"{Evidence('E1', 'metric', value, unit, 'label'):{spec}}" == told


def test_parts_are_words_and_references() -> None:
    assert CLAUSE == "75% of the 33,554,432 sectors"
    share, of, sectors, end = CLAUSE.parts
    assert (share, of) == (Reference("75%", ("excess_share#0",), evidence=SHARE), " of the ")
    assert (sectors, end) == (
        Reference("33,554,432 sector", ("sectors#0",), evidence=SECTORS),
        "s",
    )
    assert CLAUSE.ids == ("excess_share#0", "sectors#0")
    assert CLAUSE.evidence == {"excess_share#0": SHARE, "sectors#0": SECTORS}


def test_factors_and_counts() -> None:
    gain, one = constant(6.44, "", "gain"), constant(1, "", "cases")
    assert Sentence("{gain:times} and {gain:speedup}", gain=gain) == "6.4x and 6.44x"
    many = counted(constant(2048, "", "families"), "family")
    assert (many, counted(one, "case")) == ("2,048 families", "1 case")


def test_sentences_are_made_of_clauses(wording) -> None:
    warp = Sentence("a warp has {warp} threads", warp=WARP)
    whole = Sentence("{first}, {share:.1f} in all.", first=warp.capitalized(), share=SHARE)
    wording(whole)
    assert whole.ids == ("excess_share#0",)  # a constant is in no ledger
    joined = Sentence(" and ").join([CLAUSE, warp, "more"])
    wording(joined)
    assert joined.references == (*CLAUSE.references, *warp.references)
    assert CLAUSE.capitalized() == CLAUSE
    assert Sentence(" and ").join([]) == Sentence() == ""


@each_row("sentence", [CLAUSE, Sentence.of(CLAUSE.parts, "a problem", "\n")])
def test_copies_keep_their_parts(sentence: Sentence) -> None:
    for made in (copy.deepcopy(sentence), pickle.loads(pickle.dumps(sentence))):
        assert (made, type(made), vars(made)) == (sentence, type(sentence), vars(sentence))


@given(st.text() | st.sampled_from(["{share}", "{0.__class__}", "}{", "%s 82% \x1b[31m", "\ud800"]))
def test_a_name_of_a_report_is_printed_as_it_is(name: str) -> None:
    clause = Sentence("in {kernel}, {share:.0f}", kernel=name, share=SHARE)
    whole = Sentence("{clause}.", clause=Sentence("; ").join([clause, clause]).capitalized())
    assert whole == f"In {name}, 75%; in {name}, 75%."
    assert whole.ids == ("excess_share#0",)


# --- keet's own texts


def test_every_template_is_accepted_and_gets_its_values() -> None:
    """Also those that no report of the tests leads to."""
    found = {path: [*_templates(path)] for path in sorted((ROOT / "keet").rglob("*.py"))}
    assert sum(map(bool, found.values())) > 50
    for path, templates in found.items():
        for line, call, template in templates:
            given = {keyword.arg for keyword in call.keywords}
            for keyword in call.keywords:
                is_text = isinstance(keyword.value, ast.JoinedStr)
                assert not is_text or _is_name(keyword.value), (path, line)
            fields = {name for _, name, _, _ in Formatter().parse(template) if name is not None}
            assert fields <= given or None in given, (path, line)
            Sentence(template, **dict.fromkeys(fields, "x"))


def _templates(path: Path) -> Iterator[tuple[int, ast.Call, str]]:
    """The line, the call, and its template."""
    text = path.read_text("utf-8")
    if "Sentence(" not in text and "Refused(" not in text:
        return  # to parse a module takes some milliseconds
    for function in _outermost(ast.parse(text).body):
        within = sorted(ast.walk(function), key=lambda node: getattr(node, "lineno", 0))
        used: dict[str, int] = {}
        for node in within:
            if not isinstance(node, ast.Call) or not node.args:
                continue
            if getattr(node.func, "id", "") in ("Sentence", "Refused"):
                name = getattr(node.args[0], "id", "")
                since = [
                    other
                    for other in within
                    if used.get(name, 0) < getattr(other, "lineno", 0) <= node.lineno
                ]
                used[name] = node.lineno
                for argument in (node.args[0], *_assigned(since, node.args[0])):
                    for leaf in ast.walk(argument):
                        if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str):
                            yield node.lineno, node, leaf.value


def _outermost(body: Sequence[ast.stmt]) -> Iterator[ast.FunctionDef]:
    """Functions of a module and of its classes; those inside them are looked through with them."""
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield node
        else:
            yield from _outermost(getattr(node, "body", []))


def _assigned(within: Iterable[ast.AST], name: ast.expr) -> list[ast.expr]:
    """The strings that nodes assign to the name: `text = "..."`, since its last use."""
    found = []
    for node in within:
        if isinstance(node, ast.Assign) and isinstance(name, ast.Name):
            target, value = node.targets[0], node.value
            several = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
            pairs = zip(target.elts, value.elts, strict=True) if several else [(target, value)]
            found += [value for target, value in pairs if getattr(target, "id", "") == name.id]
    return [value for value in found if isinstance(value, ast.Constant | ast.IfExp)]


def _is_name(text: ast.JoinedStr) -> bool:
    """`#3`, `--top 7`, `SHA-256 12ab`: of a launch, an option, a file."""
    first = text.values[0]
    words = first.value if isinstance(first, ast.Constant) else ""
    return str(words).startswith(("#", "--", "SHA-256 "))


def test_words_of_the_catalog_are_accepted() -> None:
    words = [label for spec in findings().values() for label in (spec.label, *spec.labels.values())]
    words += [each.waits_for for each in stalls().values()]
    words += map(spoken_unit, ("issue", "L2", "FP64", "host link"))
    assert [each for each in words if number_in(each)] == []
