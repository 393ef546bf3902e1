"""Holds a model's sentences to the evidence: what bears a number that nothing shows is let go.

A number may be evidence, a fact of the launch, a constant of the source or of the hardware. Code in
backticks is no claim where it is code that is there (or is suggested); else it is read as text, so
that no number hides in it. How much faster a change will be is keet's to forecast, never a model's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Literal

from keet.evidence import CITED, MEASURED_SPEEDUPS, Evidence
from keet.profile import Launch
from keet.profile.names import file_name
from keet.verification.arithmetic import Arithmetic
from keet.verification.binding import bind, wordlike_files
from keet.verification.constants import constants, decimals
from keet.verification.disguise import Span, disguise, promises_in_words, undisguised
from keet.verification.elsewhere import said_elsewhere, wrong_change
from keet.verification.grounding import Stray, check_grounding
from keet.verification.hardware import HARDWARE, WIDTHS, attributes, is_of_device, is_power, sizes
from keet.verification.held import Held, Part, paragraphs, whole_sentences
from keet.verification.matching import same_kind
from keet.verification.naming import misnamed
from keet.verification.numbers import SaidNumber, find_numbers
from keet.verification.sentences import Sentence
from keet.verification.suggested_code import without_comments

_CODE = re.compile(r"`([^`\n]*)`")
_PLACE = re.compile(r"([\w./\\-]*\w\.[A-Za-z]\w{0,9}):(\d+)")
_FASTER = re.compile(
    r"\b(?:faster|quicker|speed-?ups?|speeds?\s+(?:\w+\s+)?up|can be saved|would be saved|"
    r"reduc\w+ (?:the )?(?:run\w*|execution|kernel)?\s*time|times? (?:less|shorter))\b",
    re.IGNORECASE,
)
_GAIN = re.compile(
    r"\b(?:gains?(?!\s+(?:nothing|little|no\b))|improve(?:s|d|ment\w*)?|sav(?:es?|ed|ing))\b", re.I
)
"""Weaker words, which a measured share may stand beside."""
_BEHIND = re.compile(r"[^\w\[\]]{0,3}\[(E\d+)")
_SOON_BEHIND = re.compile(r"[^\d\[\],;.()]{0,24}\[E\d+")
"""`20 floats [E13]`"""
_COMMON = {
    *("of", "the", "is", "at", "and", "in", "to", "by", "on", "per", "an", "share", "peak", "busy"),
    *("pipe", "pipes", "cache", "stage", "unit", "samples", "stalls", "stall", "warp", "warps"),
    *("cycles", "time", "rate", "kernel", "bytes", "all", "total", "memory", "throughput"),
    "active",
}
"""Words that tell nothing about what a number is."""
PROMISE = "how much faster is keet's to forecast, not a model's"
_BARE = re.compile(r"[\W\d_]*(?:[eExX%]|[nuµm]?s|[kKMGT]?B)?[\W\d_]*")
"""A number in backticks is no code."""
_TIMES_MEASURED = re.compile(
    r"[^.,;:()]{0,24}\b(?:DRAM|HBM|L[12]|traffic|\w*band\w*|throughput|time|duration|cycles?|stalls?"
    r"|sectors?|wavefronts?|requests?|conflicts?|samples?|occupancy|rate|IPC|latency)\b",
    re.IGNORECASE,
)
"""Behind `8 times`: what only a measurement multiplies."""
_MEASURED = {
    *("%", "x", "s", "hz", "flop", "point", "sector", "wavefront", "request", "conflict", "inst"),
    *("cycle", "issue", "wave", "register", "sample", "block", "SM"),
}
"""Units of what only a measurement has: a constant of the source can't stand for it."""
_NEVER = {"%", "x", "s", "ns", "hz", "point"}
"""Units of what no source can say."""
Stage = Literal["predicting", "judging", "proposing"]


class Holder:
    """What the sentences about some launches may say."""

    def __init__(
        self,
        evidence: Iterable[Evidence],
        launches: Sequence[Launch],
        files: Mapping[str, str],
        suggested: str = "",
        origins: Mapping[str, int] | None = None,
    ) -> None:
        """`files`: source texts by path; `suggested`: code that a model proposes; `origins`: the
        report that a piece of evidence is of, where there are several."""
        self._origins = origins or {}
        self.pieces = {piece.id: piece for piece in evidence}
        self._launches = launches
        code = without_comments("\n".join([*files.values(), suggested]))
        self._squeezed = re.sub(r"\s+", "", code)
        devices = {launch.device: launch for launch in launches}.values()
        shapes = [set(sizes(launch)) for launch in launches]
        self._device: set[int] = set().union(*map(attributes, devices))
        self._constants = constants(code).union(*shapes)
        known = self._constants | self._device | HARDWARE[""] | set(decimals(code))
        self._arithmetic = Arithmetic(known, self.pieces)
        self._predicted: set[int] = set()
        """What was said to follow from the source: the verdict on it may say it again."""
        self._lengths = {file_name(path): len(text.splitlines()) for path, text in files.items()}

    def hold(self, text: str, evidence: Iterable[str] = (), *, stage: Stage = "judging") -> Held:
        """`evidence`: ids that the writer cites for the whole text, beside those in it. `stage`:
        a prediction (before any measurement) may say what follows from constants without showing
        how; a proposal may name sizes that are not there yet."""
        cited = [found for found in evidence if found in self.pieces]
        self.learn([text])
        held = Held(
            tuple(
                Part(sentence, self._reason(sentence, cited, stage=stage), ends)
                for paragraph, end in paragraphs(undisguised(text))
                for sentence, ends in whole_sentences(self._plain(paragraph), end)
            )
        )
        if stage == "predicting":
            whole = (n for n in self._numbers(held.text) if n.value.is_integer() and not n.shape)
            self._predicted |= {int(number.value) for number in whole if self._follows(number)}
        return held

    def learn(self, texts: Iterable[str]) -> None:
        """Numbers that an answer computes in one place may be used in another."""
        for text in texts:
            self._arithmetic.learn(undisguised(text))

    def ids(self, held: Held) -> tuple[str, ...]:
        """Evidence that the text names."""
        return tuple(
            dict.fromkeys(found for found in CITED.findall(held.text) if found in self.pieces)
        )

    def count(self, held: Held) -> int:
        """Numbers in what holds: all are verified."""
        return len(self._numbers(held.text))

    def _plain(self, text: str) -> str:
        """Without headings, fences or code that is nowhere: nothing hides there."""
        joined = re.sub(r"\s*\n\s*", " ", re.sub(r"^[\s#>]+", "", text))
        joined = re.sub(r"`{2,}|~{2,}", "`", joined).strip()
        return _CODE.sub(lambda m: m[0] if self._is_code(m[1]) else m[1], joined)

    def _is_code(self, span: str) -> bool:
        known = re.sub(r"\s+", "", span) in self._squeezed
        return (known and not _BARE.fullmatch(span)) or not re.search(r"\d", span)

    def _numbers(self, text: str) -> list[SaidNumber]:
        names = [launch.name for launch in self._launches]
        return find_numbers(text, {form for name in names for form in (name.full, name.short)})

    def _reason(self, sentence: str, cited: Sequence[str], *, stage: Stage) -> str | None:
        """Why a sentence can't stand."""
        if self._promises(sentence):
            return PROMISE
        whole, sentence = sentence, self._odd_places.sub(_blank, sentence)
        here = CITED.findall(sentence)
        if unknown := [found for found in here if found not in self.pieces]:
            return f"there is no evidence {unknown[0]}"
        if mistake := self._arithmetic.mistake(sentence):
            return f"{mistake}: it comes out otherwise"
        if change := wrong_change(sentence, self.pieces, self._origins):
            return change
        stray = self._stray(sentence, [*here, *cited], stage=stage)
        if stray:
            return f"{stray.text}: {stray.reason}"
        other = self._elsewhere(whole, [*here, *cited], stage=stage)
        return other or self._misplaced(sentence) or self._disguised(sentence, [*here, *cited])

    def _elsewhere(self, sentence: str, cited: Sequence[str], *, stage: Stage) -> str | None:
        """A number that is evidence, of another thing than the sentence says."""
        allowed = [self.pieces[found] for found in cited]
        verified = check_grounding(sentence, allowed, launch=self._launches[0]).verified
        for number, why in said_elsewhere(sentence, verified, self.pieces, self._origins):
            if not self._is_constant(sentence, number, stage=stage):
                return f"{number.text}: {why}"
        return None

    def _disguised(self, sentence: str, cited: Sequence[str]) -> str | None:
        """A number that no check of numbers sees."""
        if any(name in sentence for name in self._speaking):
            return "the kernel's name has numbers to say; call it the kernel"
        numbers = self._numbers(sentence)
        if any(_is_vague(number) for number in numbers):
            return "a number with an exponent says too little; write it as measured"
        spans = [Span(number.start, number.end) for number in numbers]
        pieces = [self.pieces[found] for found in cited]
        shares = [piece.value for piece in pieces if piece.unit == "%"]
        return disguise(sentence, spans, self._constants | HARDWARE["byte"], shares)

    @cached_property
    def _odd_places(self) -> re.Pattern[str]:
        """`cmath:1073`: files of the code whose names have no ending are no numbers either."""
        names = sorted(wordlike_files(self._launches))
        return re.compile(rf"\b(?:{'|'.join(names)}):\d+" if names else r"(?!)")

    @cached_property
    def _speaking(self) -> list[str]:
        """Names that are no identifiers: their numbers would pass as parts of a name."""
        forms = (
            {*launch.name, launch.name.short, launch.device.name or ""} for launch in self._launches
        )
        return [name for name in set().union(*forms) if _speaks(name)]

    def _promises(self, sentence: str) -> bool:
        numbers = [n for n in self._numbers(sentence) if n.unit in ("x", "%")]
        uncited = [n for n in numbers if self._piece_behind(sentence, n) is None]
        weak, strong = _GAIN.search(sentence), _FASTER.search(sentence)
        own = [n for n in numbers if not self._was_measured(sentence, n)]
        said = (bool(uncited) and bool(weak)) or (bool(own) and bool(strong))
        return said or promises_in_words(sentence)

    def _was_measured(self, sentence: str, number: SaidNumber) -> bool:
        """A speed-up that two reports show is no promise."""
        piece = self._piece_behind(sentence, number)
        return piece is not None and piece.label in MEASURED_SPEEDUPS

    def _stray(self, sentence: str, cited: Sequence[str], *, stage: Stage) -> Stray | None:
        """The first number that neither the cited evidence nor a fact of any launch bears out."""
        allowed = [self.pieces[found] for found in cited]
        checked = [self._strays(sentence, allowed, launch) for launch in self._launches]
        said = {number.start: number for number in self._numbers(sentence)}
        for start, stray in checked[0].items():
            number = said.get(start)
            everywhere = all(start in other for other in checked)
            excused = number and (
                self._excused(sentence, number, stage=stage)
                or (stage == "predicting" and self._follows(number))
                or (stage == "proposing" and self._is_choice(sentence, number))
            )
            if everywhere and not excused:
                return stray._replace(reason=self._advice(sentence, number, stray))
        return None

    def _strays(
        self, sentence: str, allowed: Sequence[Evidence], launch: Launch
    ) -> dict[int, Stray]:
        """By their place. A number that is cited right may be said of another thing."""
        grounding = check_grounding(sentence, allowed, launch=launch)
        wrong = {
            number: why
            for number, why in misnamed(sentence, grounding.verified, self.pieces).items()
            if not self._is_named(sentence, number)
        }
        strays = [*grounding.stray, *(Stray(n.text, n.start, why) for n, why in wrong.items())]
        return {stray.start: stray for stray in sorted(strays, key=lambda stray: stray.start)}

    def _piece_behind(self, sentence: str, number: SaidNumber) -> Evidence | None:
        behind = _BEHIND.match(sentence, number.end)
        return self.pieces.get(behind[1]) if behind else None

    def _is_named(self, sentence: str, number: SaidNumber) -> bool:
        """It has its id right behind it, and the sentence has a word of that evidence's label."""
        piece = self._piece_behind(sentence, number)
        return piece is not None and bool(_words(piece.label) & _words(sentence))

    def _advice(self, sentence: str, number: SaidNumber | None, stray: Stray) -> str:
        """What would make it stand."""
        if number is None or number.shape:
            return stray.reason
        piece = self._piece_behind(sentence, number)
        if piece is not None:
            return f"{piece.id} is {piece} ({piece.label})"
        alike = [p for p in self.pieces.values() if number.unit and same_kind(number.unit, p.unit)]
        grounding = check_grounding(number.text, alike, launch=self._launches[0])
        ids = [found for entry in grounding.verified for found in entry.evidence]
        if ids:
            return f"{ids[0]} is that ({self.pieces[ids[0]].label}): cite it where it is meant"
        return "no evidence that is cited here is that, and no computation is shown"

    def _excused(self, sentence: str, number: SaidNumber, *, stage: Stage) -> bool:
        constant = self._is_constant(sentence, number, stage=stage)
        return constant or self._is_labelled(sentence, number)

    def _is_constant(self, sentence: str, number: SaidNumber, *, stage: Stage) -> bool:
        """Of the source or of the hardware, or computed from such; never what the sentence calls
        a metric."""
        if self._is_computed(sentence, number, stage=stage):
            return True
        if number.shape:
            return all(size in self._constants | HARDWARE[""] for size in number.shape)
        if not math.isfinite(number.value) or number.value != int(number.value):
            return False
        value, (head, *per) = int(number.value), number.unit.split("/")
        width = number.unit == "byte" and value in WIDTHS
        if width or is_of_device(sentence, number, self._device):
            return True
        if (
            head in _MEASURED
            or {"s", "warp", "SM", "scheduler"} & set(per)
            or self._is_metric(sentence, number)
        ):
            return False
        known = self._constants | self._predicted | HARDWARE[""] | HARDWARE.get(head, set())
        learnt = number.value in self._arithmetic.learnt
        return learnt or value in known or is_power(sentence, number)

    def _is_choice(self, sentence: str, number: SaidNumber) -> bool:
        """A size that an edit chooses; with an id behind it, it is said to be measured."""
        return _is_size(number) and not _SOON_BEHIND.match(sentence, number.end)

    def _is_labelled(self, sentence: str, number: SaidNumber) -> bool:
        """ncu counts requests in instructions: the label has the word that the unit lacks."""
        piece = self._piece_behind(sentence, number)
        if piece is None or abs(number.value - piece.value) > number.half:
            return False
        return bool(number.unit) and number.unit.split("/")[0] in piece.label.lower()

    def _is_metric(self, sentence: str, number: SaidNumber) -> bool:
        """`The hit rate is 4`: a constant can't stand for that."""
        (claim,) = bind(Sentence(sentence, 0), [number], ())
        return claim.term is not None and claim.firm

    def _follows(self, number: SaidNumber) -> bool:
        """One step from the constants of the source and the launch: a reader can take it too."""
        if number.shape:
            return all(size in self._arithmetic.one_step for size in number.shape)
        return number.unit not in _NEVER and number.value in self._arithmetic.one_step

    def _is_computed(self, sentence: str, number: SaidNumber, *, stage: Stage) -> bool:
        """In sight, of constants or of evidence that is cited with it. A share or a time does not
        follow from constants alone, unless it is a prediction."""
        measured = stage != "predicting" and self._is_never(sentence, number)
        return any(
            equation.start <= number.start < equation.end and (equation.cites or not measured)
            for equation in self._arithmetic.equations(sentence)
        )

    def _is_never(self, sentence: str, number: SaidNumber) -> bool:
        """`1.125 times the work` is a count; `8 times the DRAM traffic` would be a measurement."""
        if number.unit != "x":
            return number.unit in _NEVER
        return bool(_TIMES_MEASURED.match(sentence, number.end)) or self._is_metric(
            sentence, number
        )

    def _misplaced(self, sentence: str) -> str | None:
        """A line that the file does not have."""
        for path, line in _PLACE.findall(sentence):
            length = self._lengths.get(file_name(path))
            if length is not None and not 1 <= int(line) <= length:
                return f"{file_name(path)} has {length} lines"
        return None


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _is_size(number: SaidNumber) -> bool:
    """What an edit may choose: a pitch, a tile, a number of bytes or threads."""
    head, *per = number.unit.split("/")
    return bool(number.shape) or (
        head in ("", "byte", "thread", "bit", "warp", "block") and not per
    )


def _is_vague(number: SaidNumber) -> bool:
    """`1e2 %` would be anything from 50 to 150, and `1e999` anything at all."""
    return not math.isfinite(number.value) or bool(re.match(r"[-+−]?\d(?:\.\d?)?[eE]", number.text))


def _speaks(name: str) -> bool:
    """`score<128>(float *, int)` does not, whatever its arguments; `at 99 %` does."""
    outside = re.sub(r"[<({\[].*[>)}\]]", "", name)
    return bool(find_numbers(outside)) or any(n.unit in ("%", "x") for n in find_numbers(name))


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]{2,}", text.lower())) - _COMMON
