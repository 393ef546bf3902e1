"""Advice that names options: rewritten for callers whose options differ from those of `keet diff`.

The texts of caveats name options of `keet diff`. The Python API and the MCP tools have their own
names for them, and other commands (`keet explain --against`) do not have them at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from keet.comparison.caveats.caveat import Caveat
from keet.comparison.result import Difference
from keet.comparison.sentences import with_sentences
from keet.errors import NotComparable
from keet.evidence import Sentence
from keet.formatting import count_noun

_OF_DIFF = re.compile(r"(?<!keet diff )(--run-table-before|--times N:M|--launch A:B)")
_WITH_DIFF = r"keet diff \1"


def check_comparable(
    difference: Difference, force: str, options: Mapping[str, str] | None = None
) -> None:
    """Raise if the sides are not comparable. `force`: how to compare anyway. `options`: the
    caller's names for options of `keet diff`; None: the same."""
    if not difference.forbidden:
        return
    first, *others = difference.forbidden
    more = f" (and {count_noun(len(others), 'more reason')})" if others else ""
    text = first.text if options is None else first.text_with(options)
    raise NotComparable(f"{text}{more}; to compare anyway: {force}")


def name_keet_diff_options(found: Difference) -> Difference:
    """Texts that name `keet diff` together with its options."""
    why = found.no_total
    return with_sentences(
        replace(
            found,
            caveats=_named(found.caveats),
            pairs=[replace(pair, caveats=_named(pair.caveats)) for pair in found.pairs],
            no_total=why and why._replace(remedy=_OF_DIFF.sub(_WITH_DIFF, why.remedy)),
        )
    )


def _named(caveats: Sequence[Caveat]) -> tuple[Caveat, ...]:
    return tuple(replace(caveat, text=_of_diff(caveat.text)) for caveat in caveats)


def _of_diff(text: str) -> str:
    if not isinstance(text, Sentence):
        return _OF_DIFF.sub(_WITH_DIFF, text)
    parts = text.parts
    return Sentence.of(_OF_DIFF.sub(_WITH_DIFF, x) if isinstance(x, str) else x for x in parts)
