"""What a secret looks like by itself: prefixes of known services, web tokens, headers, URLs.

Every pattern must take linear time: a report or a server chooses the text that is searched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

Span = tuple[int, int]

_PREFIXES = r"sk|gsk|gh[oprsu]|hf|r8|lsv2|npm|glsa|shp(?:at|ca|pa|ss)|whsec"
_LOOKS = tuple(
    re.compile(pattern)
    for pattern in (
        # A digit is required: function names have none there.
        rf"\b(?:{_PREFIXES})[-_](?:(?:live|test|pt|sk)_)?(?=[A-Za-z]*\d)[A-Za-z0-9]{{20,}}[\w-]*",
        # Function names begin like this, too: `rk_integrateStep4thOrder`.
        r"\b(?:pk|rk|fw)(?:-|_(?:live|test)_)(?=[A-Za-z]*\d)[A-Za-z0-9]{20,}[\w-]*",
        r"\bhf_[A-Za-z]{30,}+\b",
        # Masked, as servers quote keys.
        r"\b(?:sk|pk|rk|gsk|xai|nvapi|pplx|fw|hf|r8)[-_]\w*+\*{3,}[\w*]*",
        r"\b(?:xai|nvapi|pplx|glpat)-[\w-]{20,}",
        r"\b(?:xox[abcdeoprs]-|xapp-|pypi-AgE)[\w-]{10,}",
        r"\b(?:github_pat|dckr_pat|do[opr]_v1)_[\w-]{20,}",
        r"\bAIza[\w-]{30,}",
        r"\bya29\.[\w-]{20,}",
        r"\bSG\.[\w-]{16,}+\.[\w-]{16,}",
        r"\b(?:AKIA|ASIA)[0-9A-Z]{12,}",
        r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY[A-Z ]{0,20}-----"
        r"(?s:.*?)(?:-----END [A-Z ]{0,60}-----|\Z)",
        r"\bAGE-SECRET-KEY-1[0-9A-Z]{20,}",
    )
)
_WORDS = re.compile(r"\bsk-[\w*-]{8,}+")
"""A key if it contains a digit or a star. That is checked afterwards: a lookahead from each of many
`sk-` would take quadratic time."""
_DIGIT = re.compile(r"[\d*]")
_WEB_TOKEN = re.compile(r"\beyJ[\w-]{10,}+(?P<rest>\.[\w-]{10,}+\.[\w-]*)?")
"""A JSON web token if it has all three parts, for the same reason."""
_AFTER = re.compile(
    r"""(?ix)
      \b(?:x-api-key|api-key|authorization)
        (?: ["']?\s*[:=] | ["'], ) \s* b?["']? (?:(?:bearer|basic|token)\s+)?
        (?P<header> [\w.~+/=*-]{8,} )
    | \bbearer\s+ (?=[\w.~+/=*-]*\d) (?P<bearer> [\w.~+/=*-]{20,} )
    | \bapi\ key\ provided:\s* (?P<provided> [^\s,;"']+ )
    | (?: \bhooks\.slack\.com/[a-z]{1,20}/ | \bdiscord(?:app)?\.com/api/webhooks/
        | \.webhook\.office\.com/webhookb2/ | \bapi\.telegram\.org/bot(?=\d) )
        (?P<hook> [^\s"'?\#]+ )
    | [a-z0-9+.-]:// (?P<user> [^\s/@?\#"']++ ) (?=@)
    """
)
_URL = re.compile(r"""(?i)(?:[a-z0-9+.-]:/|(?<![^\s"'(]))/(?![/*])[^\s"'<>]++""")
"""Or a path, as servers quote them. Elsewhere, `&key=` and `?key=` are code."""
_QUERY = re.compile(
    r"""(?ix)
    [?&](?:[a-z_-]*(?:key|token|secret|password)|sig|signature|auth)=(?!=) (?P<query> [^&\s"'\#]+ )
    """
)


def looks(text: str) -> Iterator[Span]:
    """Where the text has something that looks like a key."""
    yield from looks_by_itself(text)
    yield from (match.span(match.lastgroup or 0) for match in _AFTER.finditer(text))
    for url in _URL.finditer(text):
        yield from (match.span("query") for match in _QUERY.finditer(text, *url.span()))


def looks_by_itself(text: str) -> Iterator[Span]:
    """By its own characters, not by what is beside it."""
    for pattern in _LOOKS:
        yield from (match.span() for match in pattern.finditer(text))
    yield from (word.span() for word in _WORDS.finditer(text) if _DIGIT.search(word[0], 3))
    yield from (token.span() for token in _WEB_TOKEN.finditer(text) if token["rest"])


def without(text: str, spans: Iterable[Span], mark: str) -> str:
    """The text with `mark` in place of the spans, which may overlap."""
    parts, place = [], 0
    for start, end in _merged(spans):
        parts += [text[place:start], mark]
        place = end
    return "".join([*parts, text[place:]]) if parts else text


def _merged(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged
