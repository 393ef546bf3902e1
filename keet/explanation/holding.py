"""Holds a model's sentences to the evidence: what bears a number that nothing shows is let go.

A number may be evidence, a fact of the launch, a constant of the source or of the hardware. Code in
backticks is no claim where it is code that is there (or is suggested); else it is read as text, so
that no number hides in it. How much faster a change will be is keet's to forecast, never a model's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from keet.evidence import Evidence
from keet.explanation.arithmetic import Arithmetic
from keet.explanation.constants import constants, decimals
from keet.explanation.disguise import Span, disguise, promises_in_words, undisguised
from keet.explanation.grounding import Stray, check_grounding
from keet.explanation.matching import same_kind
from keet.explanation.naming import misnamed
from keet.explanation.numbers import SaidNumber, find_numbers
from keet.explanation.sentences import sentences
from keet.profile import Launch
from keet.profile.names import file_name

CITED = re.compile(r"\bE\d+\b")
_CODE = re.compile(r"`([^`\n]*)`")
_PLACE = re.compile(r"([\w./\\-]*\w\.[A-Za-z]\w{0,9}):(\d+)")
_GAIN = re.compile(
    r"\b(?:faster|quicker|speed-?ups?|speeds?\s+(?:\w+\s+)?up|gains?|improve(?:s|d|ment\w*)?|"
    r"reduc\w+ (?:the )?(?:run\w*|execution|kernel)?\s*time|times? (?:less|shorter))\b",
    re.IGNORECASE,
)
_BEHIND = re.compile(r"[^\w\[\]]{0,3}\[(E\d+)")
_COMMON = {"of", "the", "is", "at", "and", "in", "to", "share", "peak", "by", "on", "per", "an"}
"""Words that tell nothing about what a number is."""
PROMISE = "how much faster is keet's to forecast, not a model's"
_COMMENT = re.compile(
    r"(?://|#(?!\s*(?:pragma|define|if|endif|include|else|undef)))[^\n]*|/\*.*?(?:\*/|\Z)",
    re.DOTALL,
)
_LONGEST_LINE = 400
_BARE = re.compile(r"[\W\d_]*(?:[eExX%]|[nuµm]?s|[kKMGT]?B)?[\W\d_]*")
"""A number in backticks is no code."""
_FACTOR = re.compile(r"\d(?:\.\d+)?\s?(?:x\b|×|%|times\b|-?fold\b)", re.IGNORECASE)
_MEASURED = {
    *("%", "x", "s", "hz", "flop", "point", "sector", "wavefront", "request", "conflict", "inst"),
    *("cycle", "issue", "wave", "register", "sample"),
}
"""Units of what only a measurement has: a constant of the source can't stand for it."""
_NEVER = {"%", "x", "s", "ns", "hz", "point"}
"""Units of what no source can say."""
_HARDWARE = {
    "thread": {32},
    "lane": {32},
    "bank": {32},
    "byte": {1, 2, 4, 8, 16, 32, 64, 128},
    "bit": {8, 16, 32, 64, 128},
    "scheduler": {4},
    "": {0, 1, 2, 4, 32},
}
"""Sizes of warps, banks, lines, sectors and words: the same on every GPU that ncu knows."""


class Part(NamedTuple):
    """A sentence, and why it can't stand, if it can't."""

    text: str
    reason: str | None = None
    ends: str = " "
    """What follows it: a blank, or the end of a line or paragraph."""


class Held(NamedTuple):
    """A text sentence by sentence."""

    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """The sentences that hold, in their paragraphs."""
        kept = "".join(part.text + part.ends for part in self.parts if not part.reason)
        return re.sub(r"\n{3,}", "\n\n", kept).strip()

    @property
    def let_go(self) -> tuple[Part, ...]:
        return tuple(part for part in self.parts if part.reason)

    def mended(self, at: int, other: Held) -> Held:
        """With another text in place of one sentence."""
        end = self.parts[at].ends
        new = [part._replace(ends=" ") for part in other.parts[:-1]]
        last = [part._replace(ends=end) for part in other.parts[-1:]]
        return Held((*self.parts[:at], *new, *last, *self.parts[at + 1 :]))


class Holder:
    """What the sentences about some launches may say."""

    def __init__(
        self,
        evidence: Iterable[Evidence],
        launches: Sequence[Launch],
        files: Mapping[str, str],
        suggested: str = "",
    ) -> None:
        """`files`: source texts by path; `suggested`: code that a model proposes."""
        self.pieces = {piece.id: piece for piece in evidence}
        self._launches = launches
        # What a comment says is no fact of the code, nor code to be quoted.
        code = _COMMENT.sub(" ", "\n".join(map(_short_lines, [*files.values(), suggested])))
        self._squeezed = re.sub(r"\s+", "", code)
        devices = {launch.device: launch for launch in launches}.values()
        shapes = (shape for launch in launches for shape in (launch.grid, launch.block) if shape)
        self._device: set[int] = set().union(*map(_attributes, devices))
        self._constants = constants(code).union(self._device, *shapes)
        known = self._constants | _HARDWARE[""] | set(decimals(code))
        self._arithmetic = Arithmetic(known, self.pieces)
        self._lengths = {file_name(path): len(text.splitlines()) for path, text in files.items()}

    def hold(self, text: str, evidence: Iterable[str] = (), *, predicting: bool = False) -> Held:
        """`evidence`: ids that the writer cites for the whole text, beside those in it.
        `predicting`: written before any measurement, so that what follows from constants of the
        source and the launch may be said without showing how."""
        cited = [found for found in evidence if found in self.pieces]
        return Held(
            tuple(
                Part(sentence, self._reason(sentence, cited, predicting=predicting), ends)
                for paragraph, end in _paragraphs(undisguised(text))
                for sentence, ends in _sentences(self._plain(paragraph), end)
            )
        )

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

    def _reason(self, sentence: str, cited: Sequence[str], *, predicting: bool) -> str | None:
        """Why a sentence can't stand."""
        if self._promises(sentence):
            return PROMISE
        sentence = self._odd_places.sub(lambda match: " " * len(match[0]), sentence)
        here = CITED.findall(sentence)
        if unknown := [found for found in here if found not in self.pieces]:
            return f"there is no evidence {unknown[0]}"
        stray = self._stray(sentence, [*here, *cited], predicting=predicting)
        if stray:
            return f"{stray.text}: {stray.reason}"
        return self._misplaced(sentence) or self._disguised(sentence, [*here, *cited])

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
        return disguise(sentence, spans, self._constants | _HARDWARE["byte"], shares)

    @cached_property
    def _odd_places(self) -> re.Pattern[str]:
        """`cmath:1073`: files of the code whose names have no ending are no numbers either."""
        files = {loc.file for launch in self._launches for loc in launch.locations.values()}
        names = sorted(name for name in map(file_name, files) if name.isidentifier())
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
        return (bool(numbers) and bool(_GAIN.search(sentence))) or promises_in_words(sentence)

    def _stray(self, sentence: str, cited: Sequence[str], *, predicting: bool) -> Stray | None:
        """The first number that neither the cited evidence nor a fact of any launch bears out."""
        allowed = [self.pieces[found] for found in cited]
        checked = [self._strays(sentence, allowed, launch) for launch in self._launches]
        said = {number.start: number for number in self._numbers(sentence)}
        for start, stray in checked[0].items():
            number = said.get(start)
            everywhere = all(start in other for other in checked)
            excused = number and (
                self._excused(sentence, number, predicting=predicting)
                or (predicting and self._follows(number))
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

    def _is_named(self, sentence: str, number: SaidNumber) -> bool:
        """It has its id right behind it, and the sentence has a word of that evidence's label."""
        behind = _BEHIND.match(sentence, number.end)
        piece = self.pieces.get(behind[1]) if behind else None
        return piece is not None and bool(_words(piece.label) & _words(sentence))

    def _advice(self, sentence: str, number: SaidNumber | None, stray: Stray) -> str:
        """What would make it stand."""
        if number is None or number.shape:
            return stray.reason
        behind = _BEHIND.match(sentence, number.end)
        if behind and behind[1] in self.pieces:
            return f"{behind[1]} is {self.pieces[behind[1]]} ({self.pieces[behind[1]].label})"
        alike = [p for p in self.pieces.values() if number.unit and same_kind(number.unit, p.unit)]
        grounding = check_grounding(number.text, alike, launch=self._launches[0])
        ids = [found for entry in grounding.verified for found in entry.evidence]
        if ids:
            return f"{ids[0]} is that ({self.pieces[ids[0]].label}): cite it where it is meant"
        return "no evidence that is cited here is that, and no computation is shown"

    def _excused(self, sentence: str, number: SaidNumber, *, predicting: bool) -> bool:
        """A constant of the source or of the hardware, or computed from such."""
        if self._is_computed(sentence, number, predicting=predicting):
            return True
        if number.shape:
            return all(size in self._constants | _HARDWARE[""] for size in number.shape)
        head, *per = number.unit.split("/")
        if not math.isfinite(number.value):
            return False
        if head == "register" and int(number.value) in self._device:
            return True
        if head in _MEASURED or "s" in per or number.value != int(number.value):
            return False
        known = self._constants | _HARDWARE[""] | _HARDWARE.get(head, set())
        return int(number.value) in known

    def _follows(self, number: SaidNumber) -> bool:
        """One step from the constants of the source and the launch: a reader can take it too."""
        if number.shape:
            return all(size in self._arithmetic.one_step for size in number.shape)
        return number.unit not in _NEVER and number.value in self._arithmetic.one_step

    def _is_computed(self, sentence: str, number: SaidNumber, *, predicting: bool) -> bool:
        """In sight, of constants or of evidence that is cited with it. A share or a time does not
        follow from constants alone, unless it is a prediction."""
        measured = number.unit in _NEVER and not predicting
        return any(
            equation.start <= number.start < equation.end and (equation.cites or not measured)
            for equation in self._arithmetic.equations(sentence)
        )

    def _misplaced(self, sentence: str) -> str | None:
        """A line that the file does not have."""
        for path, line in _PLACE.findall(sentence):
            length = self._lengths.get(file_name(path))
            if length is not None and not 1 <= int(line) <= length:
                return f"{file_name(path)} has {length} lines"
        return None


def without_promises(code: str) -> str:
    """Comments of suggested code may explain it, not praise it."""

    def kept(comment: re.Match[str]) -> str:
        said = undisguised(comment[0])
        return "" if _FACTOR.search(said) or promises_in_words(said) else comment[0]

    return _COMMENT.sub(kept, code)


def _short_lines(code: str) -> str:
    """A line without an end would take the patterns of constants hours."""
    return "\n".join(line[:_LONGEST_LINE] for line in code.splitlines())


def _is_vague(number: SaidNumber) -> bool:
    """`1e2 %` would be anything from 50 to 150, and `1e999` anything at all."""
    return not math.isfinite(number.value) or bool(re.match(r"[-+−]?\d(?:\.\d?)?[eE]", number.text))


def _speaks(name: str) -> bool:
    """`score<128>(float *, int)` does not, whatever its arguments; `at 99 %` does."""
    outside = re.sub(r"[<({\[].*[>)}\]]", "", name)
    return bool(find_numbers(outside)) or any(n.unit in ("%", "x") for n in find_numbers(name))


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]{2,}", text.lower())) - _COMMON


def _paragraphs(text: str) -> Iterator[tuple[str, str]]:
    """Paragraphs and list items, each with what ends it."""
    for part in re.split(r"(\n\s*\n|\n(?=\s*(?:[-*+•]|\d+[.)])\s))", text.strip())[::2]:
        yield part, "\n" if re.match(r"\s*(?:[-*+•]|\d+[.)])\s", part) else "\n\n"


def _sentences(text: str, end: str) -> Iterator[tuple[str, str]]:
    """Whole ones: what a semicolon joins stands or falls together."""
    pieces = [sentence.text for sentence in sentences(text)]
    joined: list[str] = []
    for piece in pieces:
        if joined and joined[-1].endswith(";"):
            joined[-1] += f" {piece}"
        else:
            joined.append(piece)
    for i, piece in enumerate(joined):
        yield piece, " " if i + 1 < len(joined) else end


def _attributes(launch: Launch) -> Iterator[int]:
    """What the device has of everything: constants, though the report has them as metrics."""
    for name in launch.metric_names():
        if name.startswith("device__attribute_"):
            found = launch.metric(name)
            if found is not None and isinstance(found.value, int | float):
                yield int(found.value)
