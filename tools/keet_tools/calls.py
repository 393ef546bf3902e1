"""What every tool has: its call with progress and cancellation, the reports that it reads, and its
reply with at most so many characters.

A text is for a client of the MCP server, or for keet's own agent: then the name of its evidence
follows each number, `76.6% {l2_hit_rate_pct#0}`. Both are made from the same pages and sentences.
The reports are those that the MCP server opens, or those that the agent explains.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from copy import copy
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from keet.documents.document import plain
from keet.errors import UsageError, one_line
from keet.evidence import Evidence, Reference, Sentence, slug_of
from keet.formatting import count_noun
from keet.pages.blocks import Block, Code, Fold, Foot, Format, Page, Part, Reader, Span, Text
from keet.profile import Launch, Profile
from keet.profile.profile import launches_with
from keet.safe_text import shortened, visible
from keet_tools.results import PagedToolResult, ToolResult

if TYPE_CHECKING:
    from keet.comparison.compare import Difference
    from keet.explanation.explanation_types import Explanation
    from keet_tools.results import DiffArguments


_PAUSE = 0.2
"""Seconds between two messages of one stage."""
_Item = TypeVar("_Item")
WIDTH = 100
"""Characters of a line of text."""
MAX_TEXT = 8_000
"""Characters of the text of a result, as JSON."""


class ToolCall:
    """`progress` is called with an increasing number and a message; `check` raises if the call was
    cancelled. `most`: characters of the text, as JSON. `names`: for a text with names of evidence.
    """

    def __init__(
        self,
        progress: Callable[[float, str], None] = lambda *_: None,
        check: Callable[[], None] = lambda: None,
        *,
        most: int = MAX_TEXT,
        names: EvidenceNames | None = None,
    ) -> None:
        self._progress, self.check = progress, check
        self.most, self.names = most, names
        self._stage = 0
        self._last = 0.0

    @property
    def shows_code(self) -> bool:
        return self.names is None or self.names.shows_code

    def begin(self, message: str) -> None:
        """Start a new stage."""
        self.check()
        self._stage += 1
        self._last = monotonic()
        self._progress(float(self._stage), message)

    def each(self, items: Iterable[_Item], message: str, total: int) -> Iterator[_Item]:
        """The items, with a message such as `looking at launch 12 of 300` before some of them."""
        step = self.steps(message)
        for done, item in enumerate(items):
            step(done, total)
            yield item

    def steps(self, message: str) -> Callable[[int, int], None]:
        """For a stage of many steps: returns a function to call before each step, with the number
        of finished steps and of all steps."""

        def step(done: int, total: int) -> None:
            self.check()
            self._stage += not done
            if monotonic() - self._last >= _PAUSE:
                self._last = monotonic()
                self._progress(self._stage + done / total, f"{message} {done + 1} of {total}")

        return step

    def page(
        self,
        make: Callable[[Reader], Page],
        form: Format = "terminal",
        at: str = "",
        scope: str = "",
    ) -> str:
        """A page as text. `at`: the line that its numbers belong to, if they say no other. `scope`:
        of its launch in ids, for pages that do not know of several reports."""
        from keet.formats import markdown, page_text

        if self.names is None:
            return page_text(make, form, WIDTH)
        shown = self.names.marked(make(markdown.reader()).blocks, at, scope)
        return self.names.back(markdown.markdown(shown))

    def words(self, text: str, scope: str = "") -> str:
        """A line of a text; `scope` as for a page."""
        return text if self.names is None else self.names.back(self.names.marked(text, "", scope))


class EvidenceNames:
    """Names of the evidence of texts for keet's agent. Numbers of a page that are no evidence yet
    get a name here, after their label; the same name is never given to two values."""

    def __init__(self, scope: str, *, shows_code: bool = True) -> None:
        """`scope`: of the launch in focus, in ids."""
        self._scope = scope
        self.shows_code = shows_code
        """Whether source text and machine code may be shown."""
        self.known: dict[str, Evidence] = {}
        """All evidence that answers named."""
        self.cited: dict[str, Evidence] = {}
        """Of the last text."""

    def marked(self, value: Any, at: str = "", scope: str = "") -> Any:
        """Blocks or words with a mark after each number, which `back` replaces by the name:
        renderers would change a name. Code is dropped if it must not be shown, as are feet."""
        if isinstance(value, Sentence):
            return self._marked_sentence(value, at, scope)
        if isinstance(value, Span) and not self.shows_code and "code" in value.look:
            return Span("")
        if isinstance(value, Fold):
            value = Part([Text(value.summary), *value.blocks])
        if isinstance(value, Block):
            copied = copy(value)
            for name, part in vars(value).items():
                setattr(copied, name, self.marked(part, at, scope))
            return copied
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(self.marked(part, at, scope) for part in value))
        if isinstance(value, list | tuple):
            hidden = (Foot,) if self.shows_code else (Foot, Code)
            kept = (part for part in value if not isinstance(part, hidden))
            return [self.marked(part, at, scope) for part in kept]
        return value.replace(_SIGN, "?") if isinstance(value, str) else value

    def _marked_sentence(self, text: Sentence, at: str, scope: str) -> str:
        words, name = "", ""
        for part in text.parts:
            if isinstance(part, str):  # a plural ending stays at its noun
                part = part.replace(_SIGN, "?")  # noqa: PLW2901
                ending = part[: len(part) - len(part.lstrip(_LETTERS))] if name else ""
                words, name = f"{words}{ending}{name}{part[len(ending) :]}", ""
            else:
                words, name = words + name + part.text, self._mark(part, at, scope)
        return words + name

    def _mark(self, part: Reference, at: str, scope: str) -> str:
        piece = part.evidence
        if piece is None or piece.metric.startswith(_FORECASTS):  # a model must not cite those
            return ""
        if not piece.id:
            piece = self._named(piece, at, scope or self._scope)
        elif scope:
            piece = piece._replace(id=f"{piece.slug}#{scope}")
        self.known.setdefault(piece.id, piece)
        self.cited[piece.id] = piece
        return f" {_SIGN}{[*self.known].index(piece.id)}{_SIGN}"

    def _named(self, piece: Evidence, at: str, scope: str) -> Evidence:
        """`lane_stride@slow.cu:7#0`; with a number behind the label for further values."""
        for count in itertools.count(1):
            slug = slug_of(f"{piece.label} {count}" if count > 1 else piece.label)
            name = f"{slug}{f'@{at}' if at else ''}#{scope}"
            known = self.known.get(name)
            if known is None or (known.value, known.unit) == (piece.value, piece.unit):
                return piece._replace(id=name, line=at or None)
        raise AssertionError("counting does not end")

    def back(self, text: str) -> str:
        names = [*self.known]
        return _MARK.sub(lambda mark: f"{{{names[int(mark[1])]}}}", text)


_SIGN = "¤"
"""Around the number of a name; in other texts it is replaced."""
_MARK = re.compile(f"{_SIGN}(\\d+){_SIGN}")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_FORECASTS = "forecast"


MAX_STRUCTURED = 15_000
"""Characters of its structured part; the rest is for the protocol."""
PAGE = 11_000
"""Characters of the entries of one page; the rest is for the other fields."""
_STEPS = ((8_000, 60), (2_000, 60), (800, 30), (300, 12), (120, 5), (60, 3), (40, 1))
"""Longest string and longest inner list, tried in this order until the result fits. Lists of fixed
length in the schema (grids, pairs) have at most `_FIXED` entries and are never cut."""
_FIXED = 3
_ENTRY = (2_000, 60)
"""The same limits for one entry of a page."""
_CUT = "Long texts or lists are cut to keep the result short: ask for one launch, line or case."

Json = Any


class ResultPage(NamedTuple):
    """Some entries of a list."""

    entries: list[Json]
    offset: int
    """Number of the first entry."""
    total: int
    """On all pages."""
    was_cut: bool
    """Whether something is missing inside an entry."""

    @property
    def more(self) -> int:
        """Entries after these."""
        return self.total - self.offset - len(self.entries)

    @property
    def next_offset(self) -> int | None:
        """Offset of the next page; None: this is the last."""
        return self.total - self.more if self.more else None

    @property
    def notes(self) -> list[str]:
        return [_CUT] if self.was_cut else []


def page_of(entries: Iterable[Any], total: int, offset: int, most: int) -> ResultPage:
    """As many entries as fit, at least one, as JSON; `entries` begin at `offset`."""
    if offset and offset >= total:
        raise UsageError(f"offset {offset}: there are {total}; offsets begin at 0")
    taken: list[Json] = []
    room, was_cut = PAGE, False
    for entry in map(plain, entries):
        cut = trimmed(entry, *_ENTRY)
        room -= json_size(cut)
        if taken and (room < 0 or len(taken) >= most):
            break
        taken.append(cut)
        was_cut = was_cut or _lost(entry, cut)
    return ResultPage(taken, offset, total, was_cut)


def json_size(value: Json) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def bounded(result: dict[str, Json], paged: str | None = None) -> dict[str, Json]:
    """The result with visible control characters and at most `MAX_STRUCTURED` characters; `notes`
    says whether something was cut. `paged`: the field with the entries of the page; they are never
    dropped, because they would then be on no page."""
    for longest, most in _STEPS:
        cut = {
            name: [trimmed(each, longest, most) for each in value]
            if name == paged
            else trimmed(value, longest, most)
            for name, value in result.items()
        }
        if _lost(result, cut) and _CUT not in cut["notes"]:
            cut["notes"] = [*cut["notes"], _CUT]
        if json_size(cut) <= MAX_STRUCTURED:
            return cut
    raise AssertionError("a result has more fields than there is room for")


def _lost(whole: Json, cut: Json) -> bool:
    """Whether an entry is missing, or a text is shorter."""
    if isinstance(whole, dict):
        return len(whole) > len(cut) or any(map(_lost, whole.values(), cut.values()))
    if isinstance(whole, list):
        return len(whole) > len(cut) or any(map(_lost, whole, cut))
    return isinstance(whole, str) and len(whole) > len(cut)


def trimmed(value: Json, longest: int, most: int) -> Json:
    """With strings of at most `longest` characters, and lists and mappings of at most `most`
    entries."""
    if isinstance(value, str):
        return shortened(visible(value), longest)
    if isinstance(value, list):
        kept = value if len(value) <= _FIXED else value[:most]
        return [trimmed(each, longest, most) for each in kept]
    if isinstance(value, dict):
        pairs = list(value.items())
        # Fields of a type are Python identifiers; a mapping such as evidence has any number.
        if len(pairs) > most and not all(map(str.isidentifier, value)):
            pairs = pairs[:most]
        return {
            shortened(visible(key), longest): trimmed(each, longest, most) for key, each in pairs
        }
    return value


def bounded_text(text: str, end: str = "", most: int = MAX_TEXT) -> str:
    """The text of a result, cut after a whole line with a note of how much is missing. `end`: lines
    that are always kept, such as the offset of the next page."""
    if json_size(_joined(text, end)) <= most:
        return _joined(text, end)
    text, room = visible(text), most - 200 - json_size(visible(end))
    kept = text[:most]
    while json_size(kept) > room:
        kept = kept[: len(kept) * 19 // 20]
    whole_lines = kept.rpartition("\n")[0] or kept
    missing = len(text) - len(whole_lines)
    cut = f"{whole_lines}\n\n[{missing:,} more characters of text; ask for less at once]"
    return _joined(cut, end)


def _joined(text: str, end: str) -> str:
    return "\n\n".join(filter(None, (visible(text).rstrip(), visible(end).rstrip()))) + "\n"


class ToolReply(NamedTuple):
    result: ToolResult
    text: str
    end: str = ""
    """Last lines of the text, which are kept if the text is cut."""


def paged_reply(  # noqa: PLR0913 - the parts of a reply
    call: ToolCall,
    kind: type[PagedToolResult],
    page: ResultPage,
    noun: str,
    text_of: Callable[[int], str],
    *,
    notes: Iterable[str] = (),
    end: Iterable[str] = (),
    **fields: Any,
) -> ToolReply:
    """With as many entries, at least one, as fit into the text: clients may show either part of a
    result, so both must have the same entries.

    `text_of`: makes the text for a number of entries. `noun`: what an entry is. `end`: last lines
    of the text. `fields`: of the result; a function gets the page.
    """
    while True:
        if call.names:
            call.names.cited.clear()
        text, last = text_of(len(page.entries)), [*end]
        if page.next_offset is not None:
            more = count_noun(page.more, f"more {noun}")
            last.insert(0, f"{more}: call again with offset {page.next_offset}")
        size = json_size(_joined(text, "\n".join(last)))
        if len(page.entries) <= 1 or size <= call.most:
            break
        page = page._replace(entries=page.entries[: len(page.entries) * 4 // 5])
    given = {name: each(page) if callable(each) else each for name, each in fields.items()}
    result = kind(
        notes=[*notes, *page.notes],
        total=page.total,
        offset=page.offset,
        more=page.more,
        next_offset=page.next_offset,
        **{kind.paged or "": page.entries},
        **given,
    )
    return ToolReply(result, text, "\n".join(last))


class ReadReport(Protocol):
    name: str
    focus: Launch | None
    """The launch that is meant if none is named; None: `main_launch`."""
    scope: str
    """Prefix of its launches in evidence ids."""
    reads_code: bool
    """Whether machine code may be analysed."""

    @property
    def profile(self) -> Profile: ...

    def chosen(
        self, launch: int | None, kernel: str | None, argument: str = "kernel"
    ) -> tuple[Launch, ...]:
        """The launches that arguments select; raises `UsageError` if there are none. `argument`:
        the name of `kernel` in messages."""

    def explained(self, launches: Sequence[Launch], top: int, call: ToolCall) -> Explanation:
        """With up to `top` findings per launch."""


class Reports(Protocol):
    def reading(
        self, name: str, call: ToolCall, *, source: str | None = None
    ) -> AbstractContextManager[ReadReport]: ...

    def reading_two(
        self, before: str, after: str, call: ToolCall
    ) -> AbstractContextManager[tuple[ReadReport, ReadReport]]: ...

    def difference_of(
        self, sides: tuple[ReadReport, ReadReport], asked: DiffArguments, call: ToolCall
    ) -> Difference: ...


_LONGEST_NAME = 200
"""Characters of a name that a message repeats."""
_OF_REGEXES = frozenset("^$[]()+?\\{}")


def quoted(name: str) -> str:
    """A name from a client, safe to repeat in a message."""
    return shortened(one_line(name), _LONGEST_NAME)


def matcher(pattern: str, argument: str) -> Callable[[str], bool]:
    """A function that checks whether a text contains the pattern. Case is ignored, `*` is any text,
    `|` separates alternatives. Raises `UsageError` for an empty pattern.

    Not a regular expression: a bad one can run without end and can't be stopped.
    """
    alternatives = [
        [part for part in each.replace(".*", "*").split("*") if part]
        for each in pattern.casefold().split("|")
        if each.strip()
    ]
    if not alternatives:
        raise UsageError(
            f"{argument} {quoted(pattern)}: the pattern is empty; leave it out to select all"
        )

    def has_in_order(text: str, parts: Sequence[str]) -> bool:
        at = 0
        for part in parts:
            if (place := text.find(part, at)) < 0:
                return False
            at = place + len(part)
        return True

    return lambda text: any(has_in_order(text.casefold(), parts) for parts in alternatives)


def about_regexes(pattern: str) -> str:
    """The end of a message about a pattern that matches nothing."""
    if _OF_REGEXES.isdisjoint(pattern):
        return ""
    return "; regular expressions are not supported: * is any text, | separates alternatives"


def selected_launches(
    profile: Profile, launch: int | None, kernel: str | None, argument: str = "kernel"
) -> tuple[Launch, ...]:
    """The launches that the arguments of a call select; raises `UsageError` if there are none.
    `argument`: the name of the argument `kernel` in messages."""
    matches = None if kernel is None else matcher(kernel, argument)
    launches = launches_with(profile, None if launch is None else {launch}, matches)
    if kernel is not None and not launches:
        without = "" if argument == "kernel" else f" without {argument}"
        raise UsageError(
            f"{argument} {quoted(kernel)} matches no launch; list_reports with this "
            f"report{without} lists them{about_regexes(kernel)}"
        )
    return launches


def about_launch(report: ReadReport, launch: Launch) -> dict[str, Any]:
    """The fields of `OfLaunch`."""
    return {"report": report.name, "launch": launch.id, "kernel": launch.kernel}


def main_launch(report: ReadReport, launches: Sequence[Launch]) -> Launch:
    """The one in focus, or the representative of the kernel that takes most time."""
    if report.focus is not None and report.focus in launches:
        return report.focus
    return report.profile.representatives(launches)[0]
