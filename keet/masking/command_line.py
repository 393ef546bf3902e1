"""Finds secrets in command lines.

A command line is text: ncu joins its words, and quotes only some. So this searches for names with
values (`--api-key=v`, `TOKEN=v ./app`, `"password": "v"`, `-H "X-Api-Key: v"`), URLs with
credentials, options of known login commands and words that look random. A value that may extend
further is masked to its furthest end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from keet.lazy_regex import regex
from keet.masking.names import has_password, is_mixed, is_random, is_secret
from keet.masking.shapes import Span, looks

_DECISIVE = 100
"""Characters of a value that decide whether it is secret."""
_LONGEST_QUOTED = 1000
"""Characters in which the quote that closes a value is searched, for linear time."""
_PLAIN_QUOTES = ('"', "'")
_CLOSES = {quote: regex(rf"(?<!\\){quote}(?=[\s,;:)}}\]&]|\Z)") for quote in _PLAIN_QUOTES}

_NAMED = regex(
    r"""(?x)
    (?: (?<=\\[nrt]) | (?<![\w.-]) )
    (?P<dash> -D(?=\w) | [-\u2010-\u2015\u2212]{1,4}+ | / )?
    (?P<name> \w (?: [\w.-] | %5[Ff] | %2[Dd] )*+ )
    (?P<separator>
        \\{0,3}["'`]? \s*+ (?: => | := | [=:\uff1d\uff1a] ) (?![:=]) \s*+
      | (?: %22 | ["'] )? (?: %20 )*+ %3[AaDd] (?: %20 )*+
      | \\{0,3}["'] \s*+ , \s*+ (?= \\{0,3}["'] )
      | ["']? (?: \s | \\[nrt] )++
    )
    """
)
"""A name, and what separates it from its value. The reader writes line ends and tabs as `\n`, `\t`.
"""
_ENCODED = regex("%5[Ff]|%2[Dd]")
_SCHEME = regex(r"(?i)(?:bearer|basic|token|digest|negotiate|apikey|ntlm|oauth)(?:\s+|%20)")
_QUOTE = regex(r"\\{0,3}[\"'`]|%22")
_RUN = regex(r"""(?:\\.|[^\s\\"'`]|["'`](?![\s,;)}\]:]|\Z))++\\?""", re.DOTALL)
_RUN_IN_LIST = regex(r"""(?:\\(?!["']).|[^\s\\"'`&]|["'`](?![\s,;)}\]:]|\Z))++""", re.DOTALL)
_NEXT_FIELD = regex(r"""%26|[,;]\s*\\{0,3}["']?[A-Za-z_][\w .-]{0,40}["']?\s?[=:]""")
_SHELL = regex(r"""(?:^|\s)-\w*c\s+["']$""")
_BARE = regex(r"password|passwd|passphrase|secret|login", re.IGNORECASE)
"""Names after which a value follows without dash or `=`."""
_IDENTIFIED = regex(r"""(?i)identified\s+by\s+(?P<quote>["'])(?P<value>[^"']*)""")
_WORD_WITH_URL = regex(r"://(?P<rest>[^\s\"']*+)")
_HOST = regex(r"[^/@:]*(?::\d*)?(?:[/?#]|\Z)|[^:]*\Z")
"""Without a password."""
_LOGIN = regex(
    r"""(?ix) (?<![\w-])
    (?: (?P<glued> mysql\w* | mariadb\w* | 7za? ) | (?P<any> sshpass | mongo\w* | htpasswd )
      | redis-cli | ldap\w+ | sqlcmd | smbclient | zip | unzip | \w*login | passw(?:or)?d )
    (?![\w-])
    """
)
_SHORT = regex(
    r"""(?x) (?<!\S) -(?P<option>[upPaw]) (?P<space>[\s=]*+) (?P<value> "[^"]*" | '[^']*' | \S++ )
    """
)
_USER_NAME = regex(r"[\"']?[A-Za-z_][\w@-]*[\"']?")


def secret_spans(text: str, mark: str) -> Iterator[Span]:
    """What is to be masked. `mark`: what already masked values begin with."""
    yield from looks(text)
    yield from _named_values(text, mark)
    yield from _url_users(text)
    yield from _short_options(text)
    yield from _random_words(text)


# --- values with a name


def _named_values(text: str, mark: str) -> Iterator[Span]:
    end = 0
    for found in _NAMED.finditer(text):
        if found.end() < end or not _takes_value(text, found):
            continue
        start = found.end()
        if scheme := _SCHEME.match(text, start):
            start = scheme.end()
        # Decided by the beginning: reading a long value for each name would take quadratic time.
        begin, stop = _value(text, start, found, min(len(text), start + _DECISIVE))
        value = text[begin:stop]
        if not value.startswith(mark) and _is_secret(found, value):
            begin, end = _value(text, start, found, len(text))
            yield begin, end


def _is_secret(found: re.Match[str], value: str) -> bool:
    """After a name with neither dash nor `=`, a word is not secret: `./app password check`."""
    is_bare = not found["dash"] and _is_space(found["separator"])
    return not (is_bare and value.isalpha()) and is_secret(_ENCODED.sub("_", found["name"]), value)


def _is_space(separator: str) -> bool:
    return not separator.strip("\"' \t\n")


def _takes_value(text: str, found: re.Match[str]) -> bool:
    """Whether what follows may be the value of this name."""
    if not _is_space(found["separator"]):  # `/password:x`, but not `/data/token=x/file`
        return found["dash"] != "/" or text[found.start() - 1].isspace()
    if not found["dash"] and not _BARE.fullmatch(found["name"]):
        return False
    if not text.startswith("-", found.end()):
        return True
    word = _RUN.match(text, found.end(), found.end() + _DECISIVE)  # the next option, usually
    return word is not None and is_random(word[0], 8)


def _value(text: str, start: int, found: re.Match[str], limit: int) -> Span:
    """Of a quoted value, what is between the quotes. Nothing after `limit` is read."""
    if quote := _QUOTE.match(text, start, limit):
        return _quoted(text, quote.end(), quote[0], limit)
    opener = text[found.start() - 1] if found.start() else ""
    if opener in _PLAIN_QUOTES and not found["separator"].startswith(("\\", *_PLAIN_QUOTES)):
        close = _closing(text, start, opener, limit)
        if close is not None and not _SHELL.search(text, max(0, found.start() - 20), found.start()):
            return start, close
    if _in_list(text, found):
        return start, _end_in_list(text, start, limit)
    run = _RUN.match(text, start, limit)
    return start, run.end() if run else start


def _in_list(text: str, found: re.Match[str]) -> bool:
    """Whether other fields may follow in the same word: in a URL, JSON or a list of settings."""
    before = text[found.start() - 1] if found.start() else " "
    return not found["dash"] and (before in "?&;,{=\"'" or "%" in found["separator"])


def _end_in_list(text: str, start: int, limit: int) -> int:
    run = _RUN_IN_LIST.match(text, start, limit)
    end = run.end() if run else start
    following = _NEXT_FIELD.search(text, start, end)
    return following.start() if following else end


def _quoted(text: str, start: int, quote: str, limit: int) -> Span:
    """To the closing quote; to the end where there is none."""
    close = _closing(text, start, quote, limit)
    return start, limit if close is None else close


def _closing(text: str, start: int, quote: str, limit: int) -> int | None:
    """ncu writes a word with spaces in double quotes, and does not escape quotes in it: one that
    ends a word closes."""
    if quote in _CLOSES:
        found = _CLOSES[quote].search(text, start, min(limit, start + _LONGEST_QUOTED))
        if found:
            return found.start()
    at = text.find(quote, start, limit)
    return at if at >= 0 else None


# --- values without a name


def _url_users(text: str) -> Iterator[Span]:
    """`u:p@` of URLs: `looks` does not find passwords that contain `/`, `@` or `#`."""
    for url in _WORD_WITH_URL.finditer(text):
        at = text.rfind("@", *url.span("rest"))
        if at >= 0 and not _HOST.match(text, *url.span("rest")):
            yield url.start("rest"), at


def _short_options(text: str) -> Iterator[Span]:
    """`-u user:password` of any program; `-p secret` of commands that log in."""
    for found in _IDENTIFIED.finditer(text):
        yield found.span("value")
    login, user_end = _LOGIN.search(text), -1
    for found in _SHORT.finditer(text):
        start, end = found.span("value")
        if found["option"] == "u":
            if has_password(found["value"].strip("\"'")):
                yield text.index(":", start) + 1, end - (text[end - 1] in _PLAIN_QUOTES)
            user_end = end if _USER_NAME.fullmatch(found["value"]) else -1
        elif _is_password(login, found, after_user=found.start() - user_end == 1):
            yield start, end


def _is_password(login: re.Match[str] | None, found: re.Match[str], *, after_user: bool) -> bool:
    """Not an option, not a port; glued to its letter only where the command allows it."""
    value = found["value"]
    login = login if login and login.start() < found.start() else None
    if value.startswith("-") or not (login or after_user):
        return False
    if not found["space"]:
        return bool(login and login["glued"] and found["option"] == "p")
    return not (value.isdigit() and len(value) < 6) or bool(login and login["any"])


def _random_words(text: str) -> Iterator[Span]:
    """Not in paths: a folder's name may be random. `_Z` begins a mangled name of a function."""
    for found in _LONG_WORD.finditer(text):
        if "_Z" not in found[0] and any(map(is_mixed, _SIGNS.split(found[0]))):
            yield found.span()


_LONG_WORD = regex(r"(?<![\w./\\~+-])[A-Za-z0-9_~+=-]{24,}+(?:[A-Za-z0-9_~+=/-]*+)(?![.\\])")
_SIGNS = regex(r"[_~+=/-]+")
