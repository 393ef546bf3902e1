"""Checks numbers about the whole run of the program against the run table.

The values of the table are of the run, of each kernel and of each profiled launch.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Literal, NamedTuple

from keet.evidence import Evidence, Sentence
from keet.explanation.whole_run import KernelRow, WholeRun, launch_evidence, whole_run
from keet.profile import KernelRun, Profile
from keet.units import Quantity
from keet.verification.numbers import TextNumber
from keet.verification.relation_check import NOT_MEASURED
from keet.verification.report_values import ReportValue
from keet.verification.scope import QuantifierKind, find_quantifiers
from keet.verification.sentences import clause_around
from keet.verification.subjects import LAUNCH_NUMBER
from keet.verification.verdicts import CheckedNumber, CheckedSentence, agrees, confirmed, not_found

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
_SINGLE = re.compile(
    r"\bper launch\b|\beach\b|\bon average\b|\b(?:median|mean|typical|average|longest|shortest)\b"
    r"|\b(?:this|a|every|one|single) launch\b",
    re.IGNORECASE,
)
_TOTAL = re.compile(
    r"\bin total\b|\baltogether\b|\bin all\b|\bGPU time\b|\badd up\b", re.IGNORECASE
)
_OF_WHOLE_RUN = re.compile(
    r"\s*of\s+(?:the\s+)?(?:(?:whole|plain)\s+)?(?:run|GPU time)\b", re.IGNORECASE
)
_RunValueKind = Literal[
    "total", "single", "launches", "kernels", "faults", "share", "factor", "bytes"
]
"""`total`: time of all launches together; `single`: time of one launch."""

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
_NO_SUCH_NUMBER = "the sentence is about the run, and the run table has no such number"
_OF_RUN = "not checked: the sentence is about the run"
"""Of a relation, which was checked against times under replay."""


def with_run_checks(
    sentences: Iterable[CheckedSentence], profile: Profile
) -> list[CheckedSentence]:
    """The results of `verify_text`, with numbers about the run checked against the run table: times
    under replay are different."""
    subjects = _run_subjects(profile)
    if not subjects:
        return list(sentences)
    checker = _RunChecker(*subjects)
    return [checker.checked(each) for each in sentences]


class _Said(NamedTuple):
    """A number, with its position in its sentence."""

    number: TextNumber
    text: str
    """Of the sentence."""

    @property
    def before(self) -> str:
        return self.text[: self.number.start]

    @property
    def clause(self) -> str:
        start, end = clause_around(self.text, self.number.start, self.number.end)
        return self.text[start:end]

    def is_followed_by(self, pattern: re.Pattern[str]) -> bool:
        return pattern.match(self.text, self.number.end) is not None

    def distance_to(self, pattern: re.Pattern[str]) -> int | None:
        """Of the nearest match."""
        return min(map(self._distance, pattern.finditer(self.text)), default=None)

    def _distance(self, match: re.Match[str]) -> int:
        start, end = self.number.start, self.number.end
        before = match.end() <= start
        between = self.text[match.end() : start] if before else self.text[end : match.start()]
        return len(between) + sum(cost * len(part.findall(between)) for part, cost in _PARTED)

    @property
    def kinds(self) -> tuple[_RunValueKind, ...]:
        """Kinds of values that the number may be, by its unit and the words next to it; empty if
        run tables have no such values."""
        if self.number.shape:
            return ()
        unit, _, per = self.number.unit.partition("/")
        if unit in ("s", "ns"):
            single = per == "launch" or bool(_SINGLE.search(self.text))
            total = not per and bool(_TOTAL.search(self.clause))
            if single == total:
                return ("total", "single")
            return ("single",) if single else ("total",)
        if not per and unit in _UNITS:
            return (_UNITS[unit],)
        return next(((kind,) for kind, words in _COUNTED if self.is_followed_by(words)), ())

    def is_about_run(self) -> bool:
        """Whether words about the run are nearer to the number than words about the replay."""
        if not self.kinds:
            return False
        is_time = self.kinds[0] in ("total", "single")
        if is_time and (self.is_followed_by(_OF_GPU_TIME) or _RUN_ITSELF.search(self.before)):
            return True
        run, replay = self.distance_to(_IN_RUN if is_time else _RUN), self.distance_to(_REPLAY)
        return run is not None and run <= _FARTHEST_MENTION and (replay is None or run < replay)


class _Named(NamedTuple):
    start: int
    end: int
    subject: _RunSubject


class _RunChecker:
    def __init__(self, run: _RunSubject, *parts: _RunSubject) -> None:
        """`parts`: launches and kernels."""
        self._run = run
        self._launches = {part.launch: part for part in parts if part.launch is not None}
        self._kernels = {name: part for part in parts for name in part.names}
        longest = sorted(map(re.escape, self._kernels), key=len, reverse=True)
        self._names = re.compile(rf"(?<!\w)(?:{'|'.join(longest)})(?!\w)") if longest else None
        self._topic: _RunSubject | None = None
        """What the last sentence was about: `it` in the next one."""

    def checked(self, each: CheckedSentence) -> CheckedSentence:
        text = each.sentence.text
        named = self._named(text)
        quantifiers = find_quantifiers(text) if each.is_quantified else ()
        kinds = {q.kind for q in quantifiers} - {"loose", "plural", "all"}
        judge = partial(self._combined, quantifiers=kinds) if kinds else self._check
        checks = []
        for check in each.checks:
            said = _Said(check.number.moved(-each.sentence.start), text)
            checks.append(judge(check, said, named) if said.is_about_run() else check)
        self._topic = named[0].subject if named else self._topic
        if any(new is not old for new, old in zip(checks, each.checks)):
            return each.unchecked(_OF_RUN)._replace(checks=tuple(checks))
        return each

    def _named(self, text: str) -> list[_Named]:
        """Kernels and launches of the run that a sentence names; `#0 (relax)` is the launch."""
        named = [
            _Named(m.start(), m.end(), self._launches[number])
            for m in LAUNCH_NUMBER.finditer(text)
            if (number := int(m[1] or m[2])) in self._launches
        ]
        for match in self._names.finditer(text) if self._names else ():
            if not any(0 <= match.start() - launch.end <= 2 for launch in named):
                named.append(_Named(match.start(), match.end(), self._kernels[match[0]]))
        return sorted(named)

    def _check(self, check: CheckedNumber, said: _Said, named: Sequence[_Named]) -> CheckedNumber:
        kinds = said.kinds
        of_run = kinds[0] in ("kernels", "faults", "bytes")
        subject = self._run if of_run else self._subject(said, named)
        for value in self._readings(subject, said, named):
            if agrees(said.number, value.quantity):
                return confirmed(check.number, value)
        # `groups of` is one of these words.
        if kinds != ("faults",) and NOT_MEASURED.search(said.clause):
            return not_found(check.number, _MIGHT_BE)
        return _contradicted(check, subject, said)

    def _combined(
        self,
        check: CheckedNumber,
        said: _Said,
        named: Sequence[_Named],
        *,
        quantifiers: Set[QuantifierKind],
    ) -> CheckedNumber:
        """A total or an average of the run, or of the one kernel that the sentence names; other
        words about several launches are not checked against the run table."""
        subjects = [each.subject for each in named] or [self._run]
        if len(subjects) == len(quantifiers) == 1 and said.kinds[0] in ("total", "single"):
            is_average = said.number.unit.endswith("/launch")  # `2.41 ms per launch`
            combined = "average" if is_average else _COMBINED.get(min(quantifiers))
            values = self._of(subjects[0], ("total" if combined == "total" else "single",), said)
            fitting = [value for value in values if agrees(said.number, value.quantity)]
            if values and not fitting:
                return _contradicted(check, subjects[0], said)
            if combined == "each":  # the shortest and the longest, too
                right = fitting if len(fitting) == len(values) else []
            else:
                right = [v for v in fitting if combined and v.label.startswith(_LABELS[combined])]
            if right:
                return confirmed(check.number, right[0])
        return not_found(check.number, _SEVERAL)

    def _subject(self, said: _Said, named: Sequence[_Named]) -> _RunSubject | None:
        """None: the text does not say."""
        if _RUN_ITSELF.search(said.before):
            return self._run
        start, end = said.number.start, said.number.end
        if before := [each for each in named if each.end <= start]:
            return before[-1].subject
        if behind := [each for each in named if 0 <= each.start - end <= _NEAR_BEHIND]:
            return behind[0].subject
        return self._topic if _PRONOUN.search(said.text) else None

    def _readings(
        self, subject: _RunSubject | None, said: _Said, named: Sequence[_Named]
    ) -> list[ReportValue]:
        """Values of the subject, or of the run and the topic; of any launch of a kernel for
        `represents`; also of the run if a name comes only after the number."""
        kinds = said.kinds
        values = self._of(subject or self._run, kinds, said)
        if subject is None and self._topic:
            values += self._topic.of(*kinds)
        is_kernel = subject is not None and subject.launch is None
        if (is_kernel and _REPRESENTS.search(said.before)) or "factor" in kinds:
            values += [value for launch in self._launches.values() for value in launch.of(*kinds)]
        elif is_kernel and subject is not self._run and "launches" in kinds:
            values = [value for value in values if value.launch is None]
        if subject and any(each.start > said.number.start for each in named[:1]):
            values += self._of(self._run, kinds, said)
        return values

    def _of(
        self, subject: _RunSubject, kinds: Iterable[_RunValueKind], said: _Said
    ) -> list[ReportValue]:
        """Of the run, the times and shares that the nearest words name: its GPU time is not its
        wall time."""
        values = subject.of(*kinds)
        if subject is not self._run or not {"total", "share"}.intersection(kinds):
            return values
        near = {
            labels: distance
            for words, labels in _FIGURES
            if (distance := said.distance_to(words)) is not None
        }
        labels = min(near, key=lambda each: near[each], default=())
        if not labels:
            return [] if "share" in kinds else values
        return [value for value in values if value.label.startswith(labels)]


def _contradicted(check: CheckedNumber, subject: _RunSubject | None, said: _Said) -> CheckedNumber:
    """Contradicted, with the right value, if it is clear what the number means."""
    kinds = said.kinds
    known = [subject.of(kind) for kind in kinds] if subject else []
    right = [value for values in known for value in (values if len(kinds) == 1 else values[:1])]
    clear = "share" not in kinds or said.is_followed_by(_OF_WHOLE_RUN)
    if right and clear and not {"factor", "bytes"} & set(kinds):
        reason = Sentence("; ").join(dict.fromkeys(str(value) for value in right[:2]))
        return CheckedNumber(check.number, "contradicted", right[0], reason)
    if check.verdict == "contradicted" or kinds[0] in ("total", "single"):
        return not_found(check.number, _NO_SUCH_NUMBER)
    return check


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
    value: ReportValue


def _fact(kind: _RunValueKind, label: str, value: float, unit: str) -> _RunValue:
    return _RunValue(kind, ReportValue(label, Quantity(value, unit), None, None))


def _of_evidence(kind: _RunValueKind, piece: Evidence, launch: int | None = None) -> _RunValue:
    return _RunValue(kind, ReportValue(piece.label, piece.quantity, None, launch))


class _RunSubject(NamedTuple):
    """A run, kernel or launch that a sentence may be about; the most specific values come first."""

    facts: Sequence[_RunValue]
    names: Collection[str] = ()
    launch: int | None = None
    """Launch number in the report; None: a kernel, or the run."""

    def of(self, *kinds: _RunValueKind) -> list[ReportValue]:
        return [fact.value for fact in self.facts if fact.kind in kinds]


def _run_subjects(profile: Profile) -> list[_RunSubject]:
    """The run, then its launches and kernels; empty if there is no run table."""
    run, positions = whole_run(profile), profile.in_run
    if run is None or positions is None:
        return []
    launches: dict[int, list[_RunValue]] = {}
    for number, piece in launch_evidence(profile, positions):
        if kind := _KINDS_OF_LAUNCH.get(piece.metric or ""):
            launches.setdefault(number, []).append(_of_evidence(kind, piece, number))
    return [
        _RunSubject([*_of_run(run)]),
        *(
            _RunSubject(sorted(facts, key=lambda fact: fact.kind != "single"), (), number)
            for number, facts in launches.items()
        ),
        *(_kernel(row, positions.table.kernels, profile, launches) for row in run.kernels),
    ]


def _of_run(run: WholeRun) -> Iterator[_RunValue]:
    pieces = run.book.by_slug()
    for name, kind in _KINDS_OF_RUN.items():
        if name in pieces:
            yield _of_evidence(kind, pieces[name])
    if run.wall_seconds is not None:
        yield _fact("total", "time of the whole program", run.wall_seconds * 1e9, "ns")
    if (moved := run.migrations) is not None:
        yield _fact("faults", "groups of GPU page faults in the run", moved.fault_groups, "")
        yield _fact("bytes", "managed memory moved to the GPU", moved.to_gpu_bytes, "byte")
        yield _fact("bytes", "managed memory moved to the host", moved.to_host_bytes, "byte")
    if run.managed_bytes is not None:
        yield _fact("bytes", "managed memory allocated", run.managed_bytes, "byte")


def _kernel(
    row: KernelRow,
    kernels: Sequence[KernelRun],
    profile: Profile,
    launches: Mapping[int, Sequence[_RunValue]],
) -> _RunSubject:
    named = [profile.launches[number].name for number in row.profiled]
    names = {row.kernel, *(n for each in named for n in (each.short, each.full, each.function))}
    shapes = [kernel for kernel in kernels if (kernel.full or kernel.short) == row.kernel_full]
    total, count = sum(k.total_ns for k in shapes), sum(k.launches for k in shapes)
    share, counted, busy, *ends = row.evidence
    facts = [
        _of_evidence("total", busy),
        _of_evidence("launches", counted),
        _of_evidence("share", share),
        _fact("total", f"sum of durations of {row.kernel}", total, "ns"),
    ]
    for number in row.profiled:
        # What one of several launches represents is not the value of the kernel.
        own = launches.get(number, ())
        facts += [fact for fact in own if fact.kind == "single" or len(row.profiled) == 1]
    if count:
        facts.append(_fact("single", f"average duration of {row.kernel}", total / count, "ns"))
    facts += [_of_evidence("single", end) for end in ends]
    medians = [kernel.median_ns for kernel in shapes if kernel.median_ns is not None]
    facts += [_fact("single", f"median duration of {row.kernel}", ns, "ns") for ns in medians]
    return _RunSubject(facts, names - {""})
