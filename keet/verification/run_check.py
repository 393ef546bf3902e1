"""Checks numbers about the whole run of the program against the run table.

The values of the table are of the run, of each kernel and of each profiled launch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from keet.documents.verify import RelationDocument
from keet.evidence import Evidence, Sentence
from keet.explanation.whole_run import KernelRow, WholeRun, launch_evidence, whole_run
from keet.profile import KernelRun, Profile
from keet.units import Quantity
from keet.verification.numbers import TextNumber
from keet.verification.quantifiers import find_quantifiers
from keet.verification.relations import NOT_MEASURED
from keet.verification.report_values import ReportValue
from keet.verification.sentences import SentenceSpan
from keet.verification.verdicts import CheckedNumber, CheckedSentence, agrees

_RUN = re.compile(
    r"\b(?:the|its|a|this)\s+(?:(?:plain|whole|before|after)\s+)?run\b(?!\s*-?time)|\b(?:plain|whole)\s+run\b"
    r"|\bGPU time\b",
    re.IGNORECASE,
)
_IN_RUN = re.compile(
    r"\bin\s+(?:the|its|a|this)\s+(?:(?:plain|whole|before|after)\s+)?run\b(?!\s*-?time)"
    r"|\bin\s+(?:plain|whole)\s+runs?\b|\bwhen ncu measured its duration alone",
    re.IGNORECASE,
)
"""Near a time; not `99% of the run`, which does not say that the time is of the run."""
_OF_GPU_TIME = re.compile(
    r"\s*of\s+(?:GPU\s+time|the\s+(?:(?:plain|whole|before|after)\s+)?run)\b", re.IGNORECASE
)
_REPLAY = re.compile(r"\b(?:ncu|Nsight Compute|replay\w*|profiled)\b", re.IGNORECASE)
_PARTED = (
    (re.compile(r"[;:]"), 25),
    (re.compile(r","), 15),
    (re.compile(r"\band\b"), 12),
    (re.compile(r"\b(?:while|whereas|but|against|than)\b"), 30),
)
"""Separators, and the distance in characters that each adds between words."""
_CLAUSE_END = re.compile(r"[,;:()]|\b(?:while|whereas|but|and)\b")
_RUN_ITSELF = re.compile(
    r"\b(?:run|program)(?:['’]s|:|\s+(?:took|takes|lasted|lasts|has|had|is|was|needs|needed|spent"
    r"|(?:would|could|should|will|might|may|can)\s+(?:take|last|need)))"
    r"(?:\s+(?:about|only|just|roughly|nearly|almost|a total of))*\s*\Z",
    re.IGNORECASE,
)
"""Before a number of the run as a whole."""
_PRONOUN = re.compile(
    r"\b(?:it|its|they|this (?:launch|kernel)|the (?:launch|kernel))\b", re.IGNORECASE
)
_LAUNCH = re.compile(r"\b[Ll]aunch\s+#?(\d+)\b|(?<![\w&])#(\d+)\b")
_SINGLE = re.compile(
    r"\bper launch\b|\beach\b|\bon average\b|\b(?:median|mean|typical|average|longest|shortest)\b"
    r"|\b(?:this|a|every|one|single) launch\b",
    re.IGNORECASE,
)
_TOTAL = re.compile(
    r"\bin total\b|\baltogether\b|\bin all\b|\bGPU time\b|\badd up\b", re.IGNORECASE
)
_OF_RUN = re.compile(r"\s*of\s+(?:the\s+)?(?:(?:whole|plain)\s+)?(?:run|GPU time)\b", re.IGNORECASE)
_COUNTED: tuple[tuple[_RunValueKind, re.Pattern[str]], ...] = (
    ("launches", re.compile(r"\s*(?:of\s+its\s+shape|launch(?:es)?\b)")),
    ("kernels", re.compile(r"\s*kernels?\b")),
    ("faults", re.compile(r"\s*groups\s+of\s+(?:GPU\s+)?page\s+faults")),
)
_UNITS: Mapping[str, _RunValueKind] = {
    "%": "share",
    "byte": "bytes",
    "x": "factor",
    "launch": "launches",
    "kernel": "kernels",
}
_FIGURES: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (
        re.compile(r"\bwall\b|(?<!time of the )\b(?:program|application)\b", re.IGNORECASE),
        ("time of the whole program",),
    ),
    (
        re.compile(r"\bGPU time\b|\bbusy\b|\badd(?:s|ed)? up\b|\bsum\b", re.IGNORECASE),
        ("GPU time", "sum of the durations"),
    ),
    (
        re.compile(r"\bfirst kernel\b|\bspan(?:s|ned)?\b", re.IGNORECASE),
        ("time from the first kernel",),
    ),
    (
        re.compile(r"\b(?:idle[sd]?|idling|no kernel|without a kernel)\b", re.IGNORECASE),
        ("time without a kernel",),
    ),
    (
        re.compile(r"\b(?:represent|profil|report|cover|stand)\w*", re.IGNORECASE),
        ("share that the report",),
    ),
)
"""Words that name a figure of the run, and the labels of the values."""
_REPRESENTS = re.compile(r"\b(?:stands? for|represents?)\b")
_NEAR_BEHIND = 30
_FARTHEST_MENTION = 80
"""Largest distance between a number and the words that say it is about the run."""
_COMBINED = {"sum": "total", "mean": "average", "every": "each"}
"""What a quantifier makes of the values of a run table."""
_LABELS = {"total": "", "average": "average"}
_SEVERAL = "not checked: keet does not know which launches of the run the sentence is about"
_MIGHT_BE = "the text states a possibility, not a measurement"


def with_run_checks(found: Iterable[CheckedSentence], profile: Profile) -> list[CheckedSentence]:
    """The results of `verify_text`, with numbers about the run checked against the run table: times
    under replay are different."""
    subjects = _run_subjects(profile)
    if subjects is None:
        return list(found)
    checker = _RunChecker(subjects)
    return [checker.checked(each) for each in found]


class _Named(NamedTuple):
    start: int
    end: int
    subject: _RunSubject


class _RunChecker:
    def __init__(self, subjects: _RunSubjects) -> None:
        self._run = subjects.run
        self._launches = {each.launch: each for each in subjects.parts if each.launch is not None}
        self._kernels = {name: each for each in subjects.parts for name in each.names}
        longest = sorted(map(re.escape, self._kernels), key=len, reverse=True)
        self._names = re.compile(rf"(?<!\w)(?:{'|'.join(longest)})(?!\w)") if longest else None
        self._topic: _RunSubject | None = None
        """What the last sentence was about: `it` in the next one."""

    def checked(self, each: CheckedSentence) -> CheckedSentence:
        named = self._named(each.sentence.text)
        judge = self._check_quantified if each.is_quantified else self._check
        checks = tuple(judge(check, each.sentence, named) for check in each.checks)
        self._topic = named[0].subject if named else self._topic
        about_run = any(new is not old for new, old in zip(checks, each.checks))
        relations = tuple(map(_unjudged, each.relations)) if about_run else each.relations
        return each._replace(checks=checks, relations=relations)

    def _named(self, text: str) -> list[_Named]:
        """Kernels and launches of the run that a sentence names; `#0 (relax)` is the launch."""
        found = [
            _Named(m.start(), m.end(), self._launches[number])
            for m in _LAUNCH.finditer(text)
            if (number := int(m[1] or m[2])) in self._launches
        ]
        for match in self._names.finditer(text) if self._names else ():
            if not any(0 <= match.start() - launch.end <= 2 for launch in found):
                found.append(_Named(match.start(), match.end(), self._kernels[match[0]]))
        return sorted(found)

    def _check(
        self, check: CheckedNumber, sentence: SentenceSpan, named: Sequence[_Named]
    ) -> CheckedNumber:
        number, text = check.number, sentence.text
        start, end = number.start - sentence.start, number.end - sentence.start
        kinds = () if number.shape else _kinds(text, number, end, start)
        if not kinds or not _is_about_run(text, start, end, kinds):
            return check
        of_run = kinds[0] in ("kernels", "faults", "bytes")
        subject = self._run if of_run else self._subject(text, start, end, named)
        report_values = self._readings(subject, kinds, text, (start, end), named)
        if fitting := next((r for r in report_values if agrees(number, r.quantity)), None):
            return CheckedNumber(number, "confirmed", fitting, str(fitting))
        # `groups of` is one of these words.
        if kinds != ("faults",) and NOT_MEASURED.search(_clause(text, start, end)):
            return CheckedNumber(number, "not_found", None, _MIGHT_BE)
        return _contradicted(check, subject, kinds, text, end)

    def _check_quantified(
        self, check: CheckedNumber, sentence: SentenceSpan, named: Sequence[_Named]
    ) -> CheckedNumber:
        """A total or an average of the run, or of the one kernel that the sentence names; other
        words about several launches are not checked against the run table."""
        said = {q.kind for q in find_quantifiers(sentence.text)} - {"loose", "plural", "all"}
        if not said:
            return self._check(check, sentence, named)
        number, text = check.number, sentence.text
        start, end = number.start - sentence.start, number.end - sentence.start
        kinds = () if number.shape else _kinds(text, number, end, start)
        if not kinds or not _is_about_run(text, start, end, kinds):
            return check
        subjects = [each.subject for each in named] or [self._run]
        if len(subjects) == 1 and len(said) == 1 and kinds[0] in ("total", "single"):
            is_average = number.unit.endswith("/launch")  # `2.41 ms per launch`
            combined = "average" if is_average else _COMBINED.get(min(said))
            kind: _RunValueKind = "total" if combined == "total" else "single"
            values = self._of(subjects[0], (kind,), text, start, end)
            fitting = [value for value in values if agrees(number, value.quantity)]
            if values and not fitting:
                return _contradicted(check, subjects[0], kinds, text, end)
            if combined == "each":  # the shortest and the longest, too
                right = fitting if len(fitting) == len(values) else []
            else:
                right = [v for v in fitting if combined and v.label.startswith(_LABELS[combined])]
            if right:
                return CheckedNumber(number, "confirmed", right[0], str(right[0]))
        return CheckedNumber(number, "not_found", None, _SEVERAL)

    def _subject(
        self, text: str, start: int, end: int, named: Sequence[_Named]
    ) -> _RunSubject | None:
        """None: the text does not say."""
        if _RUN_ITSELF.search(text[:start]):
            return self._run
        before = [each for each in named if each.end <= start]
        if before:
            return before[-1].subject
        behind = [each for each in named if 0 <= each.start - end <= _NEAR_BEHIND]
        if behind:
            return behind[0].subject
        return self._topic if _PRONOUN.search(text) else None

    def _readings(
        self,
        subject: _RunSubject | None,
        kinds: tuple[_RunValueKind, ...],
        text: str,
        at: tuple[int, int],
        named: Sequence[_Named],
    ) -> list[ReportValue]:
        """Values of the subject, or of the run and the topic; of any launch of a kernel for
        `represents`; also of the run if a name comes only after the number. `at`: the number."""
        start, end = at
        found = self._of(subject or self._run, kinds, text, start, end)
        if subject is None and self._topic:
            found += self._topic.of(*kinds)
        represents = subject and subject.launch is None and _REPRESENTS.search(text[:start])
        if represents or "factor" in kinds:
            found += [r for each in self._launches.values() for r in each.of(*kinds)]
        elif (
            subject and subject.launch is None and subject is not self._run and "launches" in kinds
        ):
            found = [report_value for report_value in found if report_value.launch is None]
        if subject and any(each.start > start for each in named[:1]):
            found += self._of(self._run, kinds, text, start, end)
        return found

    def _of(
        self, subject: _RunSubject, kinds: Iterable[_RunValueKind], text: str, start: int, end: int
    ) -> list[ReportValue]:
        """Of the run, the times and shares that the nearest words name: its GPU time is not its
        wall time."""
        found = subject.of(*kinds)
        if subject is not self._run or not {"total", "share"}.intersection(kinds):
            return found
        near = {
            labels: distance
            for words, labels in _FIGURES
            if (distance := _nearest(words, text, start, end)) is not None
        }
        labels = min(near, key=lambda each: near[each], default=())
        if not labels:
            return [] if "share" in kinds else found
        return [value for value in found if value.label.startswith(labels)]


def _unjudged(relation: RelationDocument) -> RelationDocument:
    """It was checked against times under replay, but the sentence is about the run."""
    reason = "not checked: the sentence is about the run"
    return replace(relation, verdict="not_found", reason=reason)


def _contradicted(
    check: CheckedNumber,
    subject: _RunSubject | None,
    kinds: tuple[_RunValueKind, ...],
    text: str,
    end: int,
) -> CheckedNumber:
    """Contradicted, with the right value, if it is clear what the number means."""
    known = [subject.of(kind) for kind in kinds] if subject else []
    right = [
        report_value for some in known for report_value in (some if len(kinds) == 1 else some[:1])
    ]
    clear = "share" not in kinds or _OF_RUN.match(text, end)
    if right and clear and not {"factor", "bytes"} & set(kinds):
        reason = Sentence("; ").join(dict.fromkeys(str(report_value) for report_value in right[:2]))
        return CheckedNumber(check.number, "contradicted", right[0], reason)
    if check.verdict == "contradicted" or kinds[0] in ("total", "single"):
        missing = "the sentence is about the run, and the run table has no such number"
        return CheckedNumber(check.number, "not_found", None, missing)
    return check


def _is_about_run(text: str, start: int, end: int, kinds: tuple[_RunValueKind, ...]) -> bool:
    """Whether words about the run are nearer to the number than words about the replay."""
    is_time = kinds[0] in ("total", "single")
    if is_time and (_OF_GPU_TIME.match(text, end) or _RUN_ITSELF.search(text[:start])):
        return True
    run = _nearest(_IN_RUN if is_time else _RUN, text, start, end)
    replay = _nearest(_REPLAY, text, start, end)
    return run is not None and run <= _FARTHEST_MENTION and (replay is None or run < replay)


def _nearest(pattern: re.Pattern[str], text: str, start: int, end: int) -> int | None:
    return min((_distance(text, m, start, end) for m in pattern.finditer(text)), default=None)


def _distance(text: str, match: re.Match[str], start: int, end: int) -> int:
    before = match.end() <= start
    between = text[match.end() : start] if before else text[end : match.start()]
    return len(between) + sum(cost * len(part.findall(between)) for part, cost in _PARTED)


def _kinds(text: str, number: TextNumber, end: int, start: int) -> tuple[_RunValueKind, ...]:
    """Kinds of values that the number may be, by its unit and the words next to it; empty if run
    tables have no such values."""
    unit, _, per = number.unit.partition("/")
    if unit in ("s", "ns"):
        single = per == "launch" or bool(_SINGLE.search(text))
        total = not per and bool(_TOTAL.search(_clause(text, start, end)))
        return ("total", "single") if single == total else ("single",) if single else ("total",)
    if not per and unit in _UNITS:
        return (_UNITS[unit],)
    return next(((kind,) for kind, words in _COUNTED if words.match(text, end)), ())


def _clause(text: str, start: int, end: int) -> str:
    before = [m.end() for m in _CLAUSE_END.finditer(text, 0, start)]
    after = _CLAUSE_END.search(text, end)
    return text[before[-1] if before else 0 : after.start() if after else len(text)]


_RunValueKind = Literal[
    "total", "single", "launches", "kernels", "faults", "share", "factor", "bytes"
]
"""`total`: time of all launches together; `single`: time of one launch."""

_KINDS_OF_LAUNCH: dict[str, _RunValueKind] = {
    "run_launches": "launches",
    "run_launches_of_shape": "launches",
    "run_share": "share",
    "run_shape_share": "share",
    "run_alike_share": "share",
    "run_busy_time": "total",
    "run_duration": "single",
    "run_mean": "single",
    "run_shortest": "single",
    "run_longest": "single",
    "replay_factor": "factor",
}

_KINDS_OF_RUN: dict[str, _RunValueKind] = {
    "run_busy_time": "total",
    "run_span": "total",
    "run_total_time": "total",
    "run_launches": "launches",
    "run_kernels": "kernels",
    "run_covered": "share",
    "run_idle": "share",
}


class _RunValue(NamedTuple):
    kind: _RunValueKind
    report_value: ReportValue


class _RunSubject(NamedTuple):
    """A run, kernel or launch that a sentence may be about; the most specific values come first."""

    names: tuple[str, ...]
    launch: int | None
    """Launch number in the report; None: a kernel, or the run."""
    facts: tuple[_RunValue, ...]

    def of(self, *kinds: _RunValueKind) -> list[ReportValue]:
        return [fact.report_value for fact in self.facts if fact.kind in kinds]


class _RunSubjects(NamedTuple):
    run: _RunSubject
    parts: tuple[_RunSubject, ...]
    """Kernels and launches."""


def _run_subjects(profile: Profile) -> _RunSubjects | None:
    """None if there is no run table."""
    run, positions = whole_run(profile), profile.in_run
    if run is None or positions is None:
        return None
    launches: dict[int, list[_RunValue]] = {}
    for number, piece in launch_evidence(profile, positions):
        if piece.metric in _KINDS_OF_LAUNCH:
            found = _RunValue(_KINDS_OF_LAUNCH[piece.metric], _reading(piece, number))
            launches.setdefault(number, []).append(found)
    parts = [
        _RunSubject((), number, tuple(sorted(facts, key=lambda fact: fact.kind != "single")))
        for number, facts in launches.items()
    ]
    parts += [_kernel(row, positions.table.kernels, profile, launches) for row in run.kernels]
    return _RunSubjects(_RunSubject((), None, tuple(_of_run(run))), tuple(parts))


def _reading(piece: Evidence, launch: int | None = None) -> ReportValue:
    return ReportValue(piece.label, Quantity(piece.value, piece.unit), None, launch)


def _of_run(run: WholeRun) -> Iterator[_RunValue]:
    pieces = run.book.by_slug()
    yield from (
        _RunValue(kind, _reading(pieces[name]))
        for name, kind in _KINDS_OF_RUN.items()
        if name in pieces
    )
    if run.wall_seconds is not None:
        yield _fact("total", "time of the whole program", run.wall_seconds * 1e9, "ns")
    yield from _of_memory(run)


def _of_memory(run: WholeRun) -> Iterator[_RunValue]:
    moved, managed = run.migrations, run.managed_bytes
    if moved is not None:
        yield _fact("faults", "groups of GPU page faults in the run", moved.fault_groups, "")
        yield _fact("bytes", "managed memory moved to the GPU", moved.to_gpu_bytes, "byte")
        yield _fact("bytes", "managed memory moved to the host", moved.to_host_bytes, "byte")
    if managed is not None:
        yield _fact("bytes", "managed memory allocated", managed, "byte")


def _kernel(
    row: KernelRow,
    kernels: Sequence[KernelRun],
    profile: Profile,
    launches: dict[int, list[_RunValue]],
) -> _RunSubject:
    shapes = [kernel for kernel in kernels if (kernel.full or kernel.short) == row.kernel_full]
    named = [profile.launches[number].name for number in row.profiled]
    names = {row.kernel, *(n for each in named for n in (each.short, each.full, each.function))}
    facts = [
        *_of_kernel(row, shapes),
        *(
            fact
            for number in row.profiled
            for fact in launches.get(number, ())
            # What one of several launches represents is not the value of the kernel.
            if fact.kind == "single" or len(row.profiled) == 1
        ),
        *_of_single_launches(row, shapes),
    ]
    return _RunSubject(tuple(filter(None, names)), None, tuple(facts))


def _of_kernel(row: KernelRow, shapes: Sequence[KernelRun]) -> Iterator[_RunValue]:
    share, launches, busy, *_ = row.evidence
    yield _RunValue("total", _reading(busy))
    yield _RunValue("launches", _reading(launches))
    yield _RunValue("share", _reading(share))
    total = sum(kernel.total_ns for kernel in shapes)
    yield _fact("total", f"sum of durations of {row.kernel}", total, "ns")


def _of_single_launches(row: KernelRow, shapes: Sequence[KernelRun]) -> Iterator[_RunValue]:
    total, launches = sum(k.total_ns for k in shapes), sum(k.launches for k in shapes)
    if launches:
        yield _fact("single", f"average duration of {row.kernel}", total / launches, "ns")
    yield from (_RunValue("single", _reading(end)) for end in row.evidence[3:])
    for kernel in shapes:
        if kernel.median_ns is not None:
            yield _fact("single", f"median duration of {row.kernel}", kernel.median_ns, "ns")


def _fact(kind: _RunValueKind, label: str, value: float, unit: str) -> _RunValue:
    return _RunValue(kind, ReportValue(label, Quantity(value, unit), None, None))
