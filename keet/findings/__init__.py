"""The findings: one module per id, with everything about it. The registry walks this folder.

A module `shared_bank_conflict` holds `FINDING`, a `FindingSpec` with that id: names, texts,
remedies and what others know about it. Its functions have fixed names:

- `candidates(view, model)` proposes the cause where the report shows it;
- `absent(view, model)` says why the report shows that it is not there (optional);
- `leading_lines(code)` ranks source lines by the machine code (optional);
- `is_reached(model)`, of a healthy finding instead of `candidates`: whether the launch is at that
  limit.

Modules import keet/analysis; what several findings share is there. Texts must not claim more than
the functions show.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from keet.analysis.candidate import Amount, Candidate
from keet.analysis.hotspots.source_lines import AccessKind
from keet.analysis.launch_view import LaunchView, LeadingLines
from keet.analysis.ledger import Area
from keet.analysis.parameters import Parameter
from keet.analysis.remedy_conditions.fact import Fact
from keet.analysis.time_model import TimeModel
from keet.evidence import Evidence, Sentence

if TYPE_CHECKING:
    from keet.analysis.machine_code.launch_code import MachineCode

Family = Literal["memory", "parallelism", "instructions", "healthy"]
ClaimKind = Literal[
    "bytes", "instructions", "precision", "waiting", "redundant", "parallelism", "launches", "cause"
]
"""What the claimed amount is of; `WorkClaim.of` by kind:

- `bytes`: a level: `DRAM`, `L2`, `global` (or `L1`), `shared`, `local`, `host link`, `hot L2
  slice`. With `read` or `written` behind it, that direction alone. `needed` in bytes.
- `instructions`: `all`; a pipe (`FMA`, `ALU`, `FP64`, `FP16`, `XU`, `LSU`, `ADU`, `tensor`); a
  purpose (`value`, `memory`, `address`, `control`, `conversion`, `move`, `sync`); `atomics`; or an
  opcode (`MUFU`). `needed` in warp instructions (`inst`), or in operations of threads: `op` (32
  make a warp instruction) or `flop` (a fused multiply-add is two).
- `precision`: the type that suffices: `FP32` (for FP64), `FP16` or `tensor` (for FP32). No amount.
- `waiting`: a warp state (`long_scoreboard`, `barrier`, ...) or `all`. `removed` only.
- `redundant`: `of` is not used: a share of everything that the launch does. `removed` only.
- `parallelism`: `blocks` (`needed`: blocks of the new grid), `warps` (`needed`: warps per SM) or
  `balance` (`removed`: share of the time in which SMs are done while others work).
- `launches`: `of` is not used. `removed`: share of the launches that go, each with its start,
  drain and gap.
- `cause`: no amount: the forecast is that of keet's own candidate for the finding.
"""
Absence = tuple[Sentence, tuple[Evidence, ...]]
"""Why a cause is absent, and the evidence."""


def absence(template: str, /, **values: Evidence | str) -> Absence:
    """Of a `Sentence`, which may leave out some of the evidence among the values."""
    pieces = (value for value in values.values() if isinstance(value, Evidence))
    return Sentence(template, **values), tuple(pieces)


def amount_of(view: LaunchView, brief: Sentence | None, *bounds: str) -> Amount:
    """`bounds`: the first of them that is known is the floor; none without the machine code."""
    if view.code is None:
        return Amount(brief)
    from keet.analysis.amounts.resources import floor

    return Amount(brief, *floor(view, *bounds))


class Condition(NamedTuple):
    """When a remedy is given."""

    name: str
    needs: tuple[Fact, ...] = ()
    """Facts that must be known to be true."""
    excludes: tuple[Fact, ...] = ()
    """Facts that must not be true."""


def when(*facts: Fact, name: str = "", unless: tuple[Fact, ...] = ()) -> Condition:
    """`name`: of the remedy, in JSON; that of the first fact if not given."""
    return Condition(name or facts[0].id, facts, unless)


otherwise = Condition("general")


class Edit(NamedTuple):
    """The fix in a few words, as multiple-choice questions of the evals name it."""

    text: str
    usual: int = 99
    """Rank among what an expert expects of any kernel, most likely first."""


class SmallShare(NamedTuple):
    """Two metrics: if the part is small, the launch does not have the problem."""

    part: str
    whole: str
    text: str
    """What looks good, with `{share:.0f}`."""
    also: tuple[tuple[str, str], ...] = ()
    """Other parts and wholes, which must be known and small too."""
    covers: tuple[str, ...] = ()
    """Amounts of the accesses that the two metrics judge."""
    misses: tuple[str, ...] = ()
    """Amounts of those that they don't: nothing is praised where these are the larger part."""


class FindingSpec(NamedTuple):
    """A finding: one id of the closed list. Ids are a contract with other programs: they never
    change."""

    id: str
    """The name of its module."""
    family: Family
    label: str
    """The name in lower case, as within a sentence."""
    meaning: str
    how: str
    """What is measured, and what is assumed about a fix."""
    unlike: Mapping[str, str]
    """By similar finding: how to distinguish them."""
    remedies: Mapping[Condition, str]
    """The first whose condition fits is given; the last always fits. `{here}` becomes the place in
    the source, `{library}` the library's name."""
    edit: Edit
    labels: Mapping[str, str] = {}
    """Other labels, by variant."""
    rules: tuple[str, ...] = ()
    """Rules of Nsight Compute about the same thing."""
    rule_titles: tuple[str, ...] = ()
    """Titles of its messages, for rules that have several."""
    titles_of_variant: Mapping[str, tuple[str, ...]] = {}
    """More of them, by variant."""
    credited_rules: tuple[str, ...] = ()
    """Rules that can mean it, if every doubt is decided in their favour: for comparisons."""
    parameters: tuple[Parameter, ...] = ()
    """Parameters that its gain depends on."""
    claims: tuple[ClaimKind, ...] = ()
    """How a model may claim it, besides `cause`. Empty: it is no work that could be removed."""
    rests_on: tuple[Area, ...] = ()
    """What the numbers that show it are about: reasons of a model that are about nothing of this
    are not reasons for it."""
    memory: AccessKind | None = None
    """The array accesses that it is about, by their memory."""
    repeats: AccessKind | None = None
    """The memory whose accesses take several passes per instruction. A fix saves passes; the
    number of instructions stays the same."""
    may_drop_stores: bool = False
    """Whether a fix may store less: data for another pass or for a later launch."""
    has_narrower_data: bool = False
    """Whether a fix stores the same values in fewer bytes."""
    has_long_blocks: bool = False
    """Whether it is about blocks that take longer than others. An SM counts as active while one of
    them is left, although other blocks could run beside it."""
    is_unintended: bool = False
    """Whether the arithmetic is probably unintended: a fix also removes its conversions."""
    headline: Literal["idle", "hot line", ""] = ""
    """What the headline names besides the busiest units, where this finding comes first."""
    looks_good: SmallShare | None = None
    """The note of a launch that does not have the problem."""
    of_launches: bool = False
    """Whether its gain is that of many launches: their time, not that of each."""
    more_work: tuple[str, ...] = ()
    """Variants whose fix does more work in the same time, and not the same work faster."""
    without_cases: tuple[str, ...] = ()
    """Variants, of the finding or its remedy, that no measured case has: what its cases gained says
    nothing about them."""
    open_gains: tuple[str, ...] = ()
    """Variants whose gain nothing in a report shows: no number is printed."""
    is_general: bool = False
    """Whether it names a symptom (waiting, a busy unit, traffic, inactive threads) that good code
    has too, so that a small gain is doubtful unless the waste was measured."""
    is_last_resort: bool = False
    """Whether it is reported only where no more specific cause relieves the same unit."""

    candidates: Callable[[LaunchView, TimeModel], Iterator[Candidate]] = lambda _, __: iter(())
    absent: Callable[[LaunchView, TimeModel], Absence | None] = lambda _, __: None
    leading_lines: Callable[[MachineCode], LeadingLines] | None = None
    is_reached: Callable[[TimeModel], bool] = lambda _: False

    def proposed(self, view: LaunchView, model: TimeModel) -> Iterator[Candidate]:
        """Its candidates, with its id."""
        for candidate in self.candidates(view, model):
            yield candidate._replace(id=self.id)

    @property
    def remedy(self) -> str:
        """The general remedy."""
        return list(self.remedies.values())[-1]

    def remedy_named(self, name: str) -> str:
        """The text of a variant; the general one if there is no variant of that name."""
        return next(
            (text for remedy, text in self.remedies.items() if remedy.name == name), self.remedy
        )


@cache
def findings() -> Mapping[str, FindingSpec]:
    """All findings by id: by family, then by name."""
    specs: dict[str, FindingSpec] = {}
    for info in pkgutil.iter_modules(__path__):
        module = import_module(f"{__name__}.{info.name}")
        spec: FindingSpec | None = getattr(module, "FINDING", None)
        if spec is None or spec.id != info.name or spec.id in specs:
            raise ValueError(f"{module.__file__}: only findings belong here, named by their ids")
        functions = {name: vars(module)[name] for name in _FUNCTIONS if name in vars(module)}
        specs[spec.id] = spec._replace(**functions)
    by_family = sorted(specs.values(), key=lambda spec: get_args(Family).index(spec.family))
    return {spec.id: spec for spec in by_family}


_FUNCTIONS = ("candidates", "absent", "leading_lines", "is_reached")
