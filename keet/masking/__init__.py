"""Masks secrets: in texts of reports (recorded command lines, names of NVTX ranges), and keys in
what is printed, sent to a model or received from it (`keys`).

Patterns are compiled only for a text that may contain a secret. Imports nothing else of keet.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

MARK = "[masked]"

_HINTS = (
    *("pass", "pwd", "pw", "psw", "secret", "token", "key", "auth", "cred", "login", "pin", "otp"),
    *("mfa", "verif", "security", "mnemonic", "webhook", "wandb", "cookie", "bearer", "session"),
    *("sid", "signature", "hmac", "jwt", " -u"),
    *("wort", "woord", "senord", "hasło", "parola", "contrase", "senha", "парол", "密码"),
    *("パスワ", "identified", "://", "%", "@", "curl", "openssl", "sqlplus", "sqlldr"),
    *("mysql", "mariadb", "redis", "mongo", "ldap", "sqlcmd", "smbclient", "zip", "7z", "rman"),
    *("expdp", "impdp"),
    *("sk-", "sk_", "pk-", "pk_", "rk-", "rk_", "fw-", "fw_", "hf-", "hf_", "r8-", "r8_", "npm_"),
    *("gho_", "ghp_", "ghr_", "ghs_", "ghu_", "glpat-", "glsa_", "lsv2", "shp", "whsec_", "xapp-"),
    *("xai", "nvapi", "pplx", "xox", "pypi-", "_pat_", "_v1_", "eyj", "ya29.", "sg.", "aiza"),
    *("akia", "asia", "gho-", "ghp-", "ghr-", "ghs-", "ghu-", "npm-", "glsa-", "whsec-", "hooks."),
    "telegram",
)
"""In lower case, one of these is in every text with a secret, except for random words."""
_SHORT_NAMES = re.compile("(?i:sig|sas|pat|user)(?![a-z])")
"""Or one of these, which also begin ordinary words, such as `path`."""
_LEAST_RANDOM = 24
"""Characters of a word that is masked because it looks random, whatever precedes it."""
_MARK = re.compile(re.escape(MARK))
_BEFORE = re.compile(r"""([\w.-]*\w)[\s"'=:,\\>`]*(?:bearer |basic |token |%20)?$""", re.IGNORECASE)


@lru_cache(maxsize=64)  # launches share their NVTX ranges, reports their command line
def masked(text: str) -> str:
    """The text with secrets replaced by `MARK`. Masking a masked text changes nothing."""
    if not may_look_like_key(text) and not any(map(_may_be_random, text.split())):
        return text
    from keet.masking.command_line import secret_spans, without

    return without(text, secret_spans(text, MARK), MARK)


def masked_words(words: Sequence[str]) -> tuple[str, ...]:
    """The same for a command that is a list of words."""
    import shlex

    line = shlex.join(words)
    if (shown := masked(line)) == line:
        return tuple(words)
    try:
        return tuple(shlex.split(shown))
    except ValueError:  # the mark replaced a quote
        return (shown,)


def masked_names(text: str) -> list[str]:
    """The name before each mark of a masked text: an option, a variable, or `URL`."""
    names = []
    for mark in _MARK.finditer(text):
        before = text[max(0, mark.start() - 100) : mark.start()]
        name = _BEFORE.search(before)
        is_url = before.endswith("://")
        names.append("URL" if is_url else name[1].lstrip("-.") if name else "value")
    return names


def may_look_like_key(text: str) -> bool:
    """False: `shapes` finds nothing in the text."""
    lowered = text.lower()
    return any(hint in lowered for hint in _HINTS) or bool(_SHORT_NAMES.search(text))


def _may_be_random(word: str) -> bool:
    if len(word) < _LEAST_RANDOM or word == word.lower() or word == word.upper():
        return False
    return sum(map(str.isdigit, word)) > 2
