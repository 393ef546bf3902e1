"""What to do, for commands that compare without having the options of `keet diff`."""

from __future__ import annotations

from collections.abc import Sequence

from keet.comparison.reasons import Reason
from keet.comparison.result import Difference
from keet.patterns import regex

_OF_DIFF = regex(r"(?<!keet diff )(--run-table-before|--times N:M|--launch A:B)")


def naming_keet_diff(found: Difference) -> Difference:
    """Options that only `keet diff` has are named with it."""
    why = found.no_total
    return found._replace(
        reasons=_named(found.reasons),
        pairs=tuple(pair._replace(reasons=_named(pair.reasons)) for pair in found.pairs),
        no_total=why and why._replace(remedy=_of_diff(why.remedy)),
    )


def _named(reasons: Sequence[Reason]) -> tuple[Reason, ...]:
    return tuple(reason._replace(text=_of_diff(reason.text)) for reason in reasons)


def _of_diff(text: str) -> str:
    return _OF_DIFF.sub(r"keet diff \1", text)
