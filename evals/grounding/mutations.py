"""True sentences about a sample, each with one number of known evidence, and ways to make them
false.

Some sentences are built from a label and a value, as models write them; some are keet's own. The
mutants are false by construction; no checker decides which are fair.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from evals.grounding.explanations import ASKED, SampleExplanations
from keet.evidence import Evidence
from keet.verification.verdicts import same_kind

_EACH = 2
"""Sentences per sample that are built from labels; the metrics change from sample to sample."""
_NUMERAL = re.compile(r"(?P<numeral>\d[\d,]*(?:\.\d+)?)(?P<unit>.*)")


class TrueSentence(NamedTuple):
    """A true sentence: the text before its number, the number, and the text after it."""

    sample: str
    piece: Evidence
    before: str
    numeral: str
    unit: str
    """With the space before it."""
    after: str
    metric: str | None = None
    """Catalog id."""

    @property
    def text(self) -> str:
        return self.saying(self.numeral + self.unit)

    def saying(self, said: str, *, before: str | None = None) -> str:
        return (self.before if before is None else before) + said + self.after


def true_sentences_of(explained: SampleExplanations, turn: int) -> list[TrueSentence]:
    """`turn`: the number of the sample, which selects the metrics."""
    return [*_labelled(explained, turn), *_own(explained), *_placed(explained)]


def _labelled(explained: SampleExplanations, turn: int) -> Iterator[TrueSentence]:
    order = [ASKED[(turn * _EACH + step) % len(ASKED)] for step in range(len(ASKED))]
    telling = [name for name in order if _tells(explained.asked.get(name))]
    for name in telling[:_EACH]:
        piece = explained.asked[name]
        base = _base(explained.name, piece, f"{piece.label} is ", ".")
        yield from [base._replace(metric=name)] if base else []


def _tells(piece: Evidence | None) -> bool:
    """0 and 100 % are the values of many metrics, so a mutant of theirs may be true of another
    one."""
    return piece is not None and 0 < piece.value != 100


def _placed(explained: SampleExplanations) -> Iterator[TrueSentence]:
    shares = [piece for piece in explained.places if 1 < piece.value < 99]
    for piece in shares[:1]:
        base = _base(explained.name, piece, f"{piece.line} has ", " of the samples.")
        yield from [base] if base else []


def _own(explained: SampleExplanations) -> Iterator[TrueSentence]:
    """The first number of keet's own sentence about a finding."""
    for finding in explained.told.findings[:1]:
        for number in finding.text.references[:1]:
            place = finding.text.parts.index(number)
            before = "".join(map(str, finding.text.parts[:place]))
            piece = explained.pieces.get(number.ids[0]) if number.ids else None
            said = _parts(number.text)
            if piece and said:
                after = finding.text[len(before) + len(number.text) :]
                yield TrueSentence(explained.name, piece, before, *said, after)


def _base(sample: str, piece: Evidence, before: str, after: str) -> TrueSentence | None:
    parts = _parts(str(piece))
    return TrueSentence(sample, piece, before, *parts, after) if parts else None


def _parts(said: str) -> tuple[str, str] | None:
    match = _NUMERAL.fullmatch(said)
    return (match["numeral"], match["unit"]) if match else None


# --- mutants


Mutation = Callable[[TrueSentence, SampleExplanations, random.Random], str | None]
"""A false sentence; None: this mutation does not apply."""


class Mutant(NamedTuple):
    """A false sentence and the true one it was made from."""

    kind: str
    true: str
    false: str


def mutants_of(explained: SampleExplanations, turn: int) -> Iterator[Mutant]:
    for base in true_sentences_of(explained, turn):
        for kind, mutate in MUTATIONS.items():
            text = mutate(base, explained, random.Random(f"{kind} {base.text}"))
            if text is not None:
                yield Mutant(kind, base.text, text)


# --- digits


def _with_digit(numeral: str, index: int, step: int) -> str:
    """The number of digits stays the same: a leading digit does not become zero."""
    digit = int(numeral[index])
    new = 1 + (digit - 1 + step) % 9 if index == 0 else (digit + step) % 10
    return f"{numeral[:index]}{new}{numeral[index + 1 :]}"


def _first_digit(base: TrueSentence, _: SampleExplanations, draw: random.Random) -> str | None:
    if base.numeral[0] == "0":
        return None
    return base.saying(_with_digit(base.numeral, 0, draw.randint(1, 8)) + base.unit)


def _last_digit(base: TrueSentence, *_: object) -> str | None:
    """One more in the last place: the smallest change that is false as printed."""
    if len(base.numeral) < 2 or base.numeral[-1] == "9":
        return None
    changed = _with_digit(base.numeral, len(base.numeral) - 1, 1)
    if float(changed.replace(",", "")) - _exact(base) <= 0.501 * _last_place(changed):
        return None  # 12.5 is 12 and 13
    return base.saying(changed + base.unit)


def _exact(base: TrueSentence) -> float:
    """The value before rounding, in the printed unit."""
    return base.piece.value / 10.0 ** round(math.log10(base.piece.value / _value(base)))


def _last_place(numeral: str) -> float:
    return 10.0 ** -len(numeral.partition(".")[2])


def _swapped_digits(base: TrueSentence, _: SampleExplanations, draw: random.Random) -> str | None:
    numeral = base.numeral
    pairs = [found.start() for found in re.finditer(r"(?=\d\d)", numeral)]
    unequal = [at for at in pairs if numeral[at] != numeral[at + 1] and (at or numeral[1] != "0")]
    if not unequal:
        return None
    at = draw.choice(unequal)
    swapped = numeral[:at] + numeral[at + 1] + numeral[at] + numeral[at + 2 :]
    return base.saying(swapped + base.unit)


def _moved_point(base: TrueSentence, _: SampleExplanations, draw: random.Random) -> str | None:
    value = _value(base) * draw.choice((10, 0.1))
    return base.saying(f"{value:.4g}{base.unit}") if value < 1000 else None


def _too_coarse(base: TrueSentence, *_: object) -> str | None:
    """One digit where two would differ: 53.12 % is not 50 %."""
    value = _value(base)
    rounded = float(f"{value:.0e}")
    if value < 10 or abs(rounded - value) < max(1, 0.02 * value):
        return None
    return base.saying(f"{rounded:,.0f}{base.unit}")


def _value(base: TrueSentence) -> float:
    return float(base.numeral.replace(",", ""))


# --- units

_PREFIXES = {"ns": "us", "us": "ms", "ms": "us", "B": "KB", "KB": "MB", "MB": "GB", "GB": "MB"}
_OTHERS = {"%": " us", "us": " %", "ms": " %", "MB": " us", "GB": " us", "GB/s": " %", "GHz": " %"}


def _prefix(base: TrueSentence, *_: object) -> str | None:
    head, *per = base.unit.strip().split("/")
    other = _PREFIXES.get(head)
    return base.saying(f"{base.numeral} {'/'.join([other, *per])}") if other else None


def _other_unit(base: TrueSentence, *_: object) -> str | None:
    other = _OTHERS.get(base.unit.strip())
    return base.saying(base.numeral + other) if other else None


def _fraction(base: TrueSentence, *_: object) -> str | None:
    """A fraction with a percent sign: 0.5312 % for 53.12 %."""
    if base.unit.strip() != "%":
        return None
    return base.saying(f"{_value(base) / 100:.4f}{base.unit}")


# --- signs and notations


def _negative(base: TrueSentence, *_: object) -> str:
    return base.saying(f"-{base.numeral}{base.unit}")


def _exponent(base: TrueSentence, *_: object) -> str:
    """1000 times too much, in another notation."""
    return base.saying(f"{1000 * _value(base):.3e}{base.unit}")


def _other_script(
    base: TrueSentence, explained: SampleExplanations, draw: random.Random
) -> str | None:
    changed = _first_digit(base, explained, draw)
    if changed is None:
        return None
    start, end = len(base.before), len(base.before) + len(base.numeral)
    wide = changed[start:end].translate({ord("0") + n: 0xFF10 + n for n in range(10)})
    return changed[:start] + wide + changed[end:]


def _in_words(base: TrueSentence, *_: object) -> str | None:
    if base.unit.strip() != "%":
        return None
    return base.saying("ninety-one percent" if _value(base) < 70 else "seventeen percent")


def _false_bound(base: TrueSentence, _: SampleExplanations, draw: random.Random) -> str:
    value = _value(base)
    if draw.random() < 0.5:
        return base.saying(f"more than {1.5 * value:.4g}{base.unit}")
    return base.saying(f"less than {0.6 * value:.4g}{base.unit}")


# --- true numbers of other things


def _others(base: TrueSentence, explained: SampleExplanations) -> list[Evidence]:
    """Evidence with the same unit and a clearly different value."""
    return [
        piece
        for piece in explained.asked.values()
        if same_kind(piece.unit, base.piece.unit) and _differs(piece.value, base.piece.value)
    ]


def _differs(one: float, other: float) -> bool:
    return abs(one - other) > 0.03 * max(abs(one), abs(other))


def _of_another_metric(
    base: TrueSentence, explained: SampleExplanations, draw: random.Random
) -> str | None:
    others = _others(base, explained)
    return base.saying(str(draw.choice(others))) if others else None


def _another_name(
    base: TrueSentence, explained: SampleExplanations, draw: random.Random
) -> str | None:
    """The number is right, but it belongs to another metric."""
    others = _others(base, explained)
    if base.metric is None or not others:
        return None
    return base.saying(base.numeral + base.unit, before=f"{draw.choice(others).label} is ")


def _of_the_other_variant(
    base: TrueSentence, explained: SampleExplanations, *_: object
) -> str | None:
    after = explained.asked_after.get(base.metric or "")
    if after is None or not _differs(after.value, base.piece.value):
        return None
    return base.saying(str(after))


def _another_line(
    base: TrueSentence, explained: SampleExplanations, draw: random.Random
) -> str | None:
    line = base.piece.line
    others = [p for p in explained.places if p.line != line and _differs(p.value, base.piece.value)]
    if not line or not others:
        return None
    return base.saying(base.numeral + base.unit, before=f"{draw.choice(others).line} has ")


# --- what nobody measured

_INVENTED = ("Tail latency overhead", "Cache pollution", "Scheduler contention", "Warp idle ratio")


def _invented(base: TrueSentence, _: SampleExplanations, draw: random.Random) -> str | None:
    """An invented name and number."""
    if base.metric is None:
        return None
    return f"{draw.choice(_INVENTED)} is {draw.uniform(20, 90):.2f} %."


def _promise(base: TrueSentence, explained: SampleExplanations, draw: random.Random) -> str | None:
    """More than the highest forecast of keet."""
    findings = explained.told.findings
    if base.metric is None or not findings:
        return None
    beyond = findings[0].forecast.high * draw.uniform(1.5, 3)
    return f"With that mended the kernel runs {beyond:.1f}x faster."


def _promise_in_words(
    base: TrueSentence, explained: SampleExplanations, draw: random.Random
) -> str | None:
    if base.metric is None or not explained.told.findings:
        return None
    much = draw.choice(("ten times faster", "at twice the speed", "in half the time"))
    return f"With that mended the kernel runs {much}."


MUTATIONS: Mapping[str, Mutation] = {
    "first digit": _first_digit,
    "last digit, by one": _last_digit,
    "two digits swapped": _swapped_digits,
    "decimal point moved": _moved_point,
    "rounded too far": _too_coarse,
    "prefix of the unit (us for ms)": _prefix,
    "another unit": _other_unit,
    "fraction with a percent sign": _fraction,
    "negative": _negative,
    "exponent, 1000 times too much": _exponent,
    "digits of another script": _other_script,
    "number in words": _in_words,
    "false bound (more than, less than)": _false_bound,
    "value of another metric": _of_another_metric,
    "name of another metric": _another_name,
    "value of another variant": _of_the_other_variant,
    "another source line": _another_line,
    "invented": _invented,
    "promise beyond the forecast": _promise,
    "promise in words": _promise_in_words,
}
