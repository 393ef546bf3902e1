"""Finds secrets in command lines.

A command line is text: ncu joins its words, and quotes only some. So this searches for names with
values (`--api-key=v`, `TOKEN=v ./app`, `"password": "v"`, `-H "X-Api-Key: v"`), URLs with
credentials, options of known login commands, words that look random, and what looks like a secret
by itself: prefixes of known services, web tokens, headers, URLs. A value that may extend further is
masked to its furthest end.

Every pattern must take linear time: a report or a server chooses the text that is searched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

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


_DECISIVE = 100
"""Characters of a value that decide whether it is secret."""
_LONGEST_QUOTED = 1000
"""Characters in which the quote that closes a value is searched, for linear time."""
_PLAIN_QUOTES = ('"', "'")
_CLOSES = {quote: re.compile(rf"(?<!\\){quote}(?=[\s,;:)}}\]&]|\Z)") for quote in _PLAIN_QUOTES}

_NAMED = re.compile(
    r"""(?x)
    (?: (?<=\\[nrt]) | (?<![\w.-]) )
    (?P<dash> -D(?=\w) | [-\u2010-\u2015\u2212]{1,4}+ | / )?
    (?P<name> \w (?: [\w.-] | %5[Ff] | %2[Dd] )*+ )
    (?P<separator>
        (?: \\{0,3}["'`] \]? )? \s*+ (?: => | := | [=:\uff1d\uff1a] ) (?![:=]) \s*+
      | (?: %22 | ["'] )? (?: %20 )*+ %3[AaDd] (?: %20 )*+
      | \\{0,3}["'] \s*+ , \s*+ (?= \\{0,3}["'] )
      | ["']? (?: \s | \\[nrt] )++
    )
    """
)
"""A name, and what separates it from its value. The reader writes line ends and tabs as `\n`, `\t`.
"""
_ENCODED = re.compile("%5[Ff]|%2[Dd]")
_SCHEME = re.compile(r"(?i)(?:bearer|basic|token|digest|negotiate|apikey|ntlm|oauth)(?:\s+|%20)")
_QUOTE = re.compile(r"\\{0,3}[\"'`]|%22")
_RUN = re.compile(r"""(?:\\.|[^\s\\"'`]|["'`](?![\s,;)}\]:]|\Z))++\\?""", re.DOTALL)
_RUN_IN_LIST = re.compile(r"""(?:\\(?!["']).|[^\s\\"'`&]|["'`](?![\s,;)}\]:]|\Z))++""", re.DOTALL)
_NEXT_FIELD = re.compile(r"""%26|[,;]\s*\\{0,3}["']?[A-Za-z_][\w .-]{0,40}["']?\s?[=:]""")
_SHELL = re.compile(r"""(?:^|\s)-\w*c\s+["']$""")
_BARE = re.compile(r"password|passwd|passphrase|secret|login", re.IGNORECASE)
"""Names after which a value follows without dash or `=`."""
_PART = re.compile(r"[a-z0-9][A-Z]|\w[._]\w|^_")
"""In names of settings: `user.password`, `aws_secret_access_key`, `_authToken`."""
_SETTERS = frozenset(("set", "config", "--global", "--local", "--system", "--add"))
"""Words before the name of a setting: `git config user.password v`."""
_SETTING_VALUE = re.compile(r"(?=[\W\d_]*[A-Za-z])(?=[\W_A-Za-z]*\d)[\w+=~!@#$%^*-]{8,100}+")
_IDENTIFIED = re.compile(r"""(?i)identified\s+by\s+(?P<quote>["'])(?P<value>[^"']*)""")
_WORD_WITH_URL = re.compile(r"://(?P<rest>[^\s\"']*+)")
_QUOTED_URL = re.compile(
    r"""(?x) ["'][^\s"'/]{0,60}://
    (?P<user> [^\s"'/@:\[]{0,60} : (?!\d+[\s?,;]) (?= [^\s"'/]{1,100}\s ) [^"'/]{1,100} ) @
    """
)
"""In quotes, a password may have spaces."""
_AT_HOST = re.compile(
    r"""(?x) (?<![^\s"'=,])
    (?P<proxy> (?: -x | --?[\w-]{0,40}(?:proxy|dsn) ) (?:\s+|=) ["']? )?
    (?P<user> [A-Za-z_][\w.%+\\-]{0,60} : (?!//)
      (?P<password> (?: (?(proxy) [^\s"'] | [^\s"'/] ) ){1,100} ) ) @
    (?: (?(proxy) [\w\[] | [\w.-]{1,100} (?: :(?:80|\d{3,5})(?!\w) | \( ) ) )
    """
)
"""`user:password@host:3128` without `://`; not `layer:3@gpu:0` and `image:tag@sha256:…`."""
_ORACLE = re.compile(
    r"""(?x) (?<![\w/.-]) \w{1,60} / (?P<url> [^\s"'/@]{1,100} ) @//
      | (?i: (?<![\w-]) (?: sqlplus | sqlldr | expdp | impdp | rman )
        (?: \s+ -\S{1,20} ){0,4} \s+ ["']?\w{1,60}/ (?P<value> [^\s"'@]{1,100} ) )
    """
)
"""`user/password@orcl`"""
_HOST = re.compile(r"[^/@:]*(?::\d*)?(?:[/?#]|\Z)|[^:]*\Z")
"""Without a password."""
_LOGIN = re.compile(
    r"""(?ix) (?<![\w-])
    (?: (?P<glued> mysql\w* | mariadb\w* | 7za? ) | (?P<sshpass> sshpass )
      | (?P<any> mongo\w* | htpasswd ) | (?P<zip> zip | unzip ) | (?P<openssl> openssl )
      | (?P<curl> curl )
      | (?P<other> redis-cli | ldap\w+ | sqlcmd | smbclient | \w*login | passw(?:or)?d ) )
    (?![\w-])
    """
)
"""Commands that log in, by what their options mean."""
_GLUED = {"glued": "p", "sshpass": "p", "zip": "P"}
"""The option that a password may follow without a space."""
_OWN = {"k": "openssl", "K": "openssl", "b": "curl"}
"""Options that only this command has for secrets."""
_PLAIN_LOGINS = frozenset(("glued", "sshpass", "any", "zip", "other"))
_SHORT = re.compile(
    r"""(?x) (?<!\S) -(?P<option>[uUpPawkKb]) (?P<space>[\s=]*+)
    (?P<value> "[^"]*" | '[^']*' | (?!-) \S++ )
    """
)
_SHARE_USER = re.compile(r"[^%\s]*[A-Za-z][^%\s]*%(?P<value>.+)")
"""`user%password` of Windows shares."""
_USER_NAME = re.compile(r"[\"']?[A-Za-z_][\w@-]*[\"']?")


def secret_spans(text: str, mark: str) -> Iterator[Span]:
    """What is to be masked. `mark`: what already masked values begin with."""
    yield from looks(text)
    yield from _named_values(text, mark)
    yield from _url_users(text)
    yield from _short_options(text)
    # Not in paths: a folder's name may be random. `_Z` begins a mangled name of a function.
    for word in _LONG_WORD.finditer(text):
        if "_Z" not in word[0] and any(map(is_mixed, _SIGNS.split(word[0]))):
            yield word.span()


# --- values with a name


def _named_values(text: str, mark: str) -> Iterator[Span]:
    end = 0
    for option in _NAMED.finditer(text):
        if option.end() < end or not _takes_value(text, option):
            continue
        start = option.end()
        if scheme := _SCHEME.match(text, start):
            start = scheme.end()
        # Decided by the beginning: reading a long value for each name would take quadratic time.
        begin, stop = _value(text, start, option, min(len(text), start + _DECISIVE))
        value = text[begin:stop]
        if not value.startswith(mark) and _is_secret(text, option, value):
            begin, end = _value(text, start, option, len(text))
            yield begin, end


def _is_secret(text: str, option: re.Match[str], value: str) -> bool:
    """After a name with neither dash nor `=`, a word is not secret: `./app password check`."""
    name = _ENCODED.sub("_", option["name"])
    if not option["dash"] and _is_space(option["separator"]) and not _is_set(text, option):
        if not _BARE.fullmatch(name) and not _SETTING_VALUE.fullmatch(value):
            return False
        if value.isalpha() or (name.lower() == "login" and not _is_random(value, 16)):
            return False
    return _says_secret(name, value)


def _is_set(text: str, option: re.Match[str]) -> bool:
    """Whether a command sets this name: `npm config set //host/:_authToken v`."""
    return _word_before(text, option) in _SETTERS and _PART.search(option["name"]) is not None


def _word_before(text: str, option: re.Match[str]) -> str:
    *words, _ = ["", *text[max(0, option.start() - _DECISIVE) : option.start()].split(" ")]
    return words[-1]


def _is_space(separator: str) -> bool:
    return not separator.strip("\"' \t\n")


def _takes_value(text: str, option: re.Match[str]) -> bool:
    """Whether what follows may be the value of this name."""
    if not _is_space(option["separator"]):  # `/password:x`, but not `/data/token=x/file`
        return option["dash"] != "/" or text[option.start() - 1].isspace()
    if not option["dash"] and not _BARE.fullmatch(option["name"]):
        is_path = text[max(0, option.start() - 1) : option.start()] in ("/", "\\")
        if is_path or not _PART.search(option["name"]) or _word_before(text, option)[:1] == "-":
            return _is_set(text, option)
    if not text.startswith("-", option.end()):
        return True
    word = _RUN.match(text, option.end(), option.end() + _DECISIVE)  # the next option, usually
    return word is not None and _is_random(word[0], 8)


def _value(text: str, start: int, option: re.Match[str], limit: int) -> Span:
    """Of a quoted value, what is between the quotes, or behind the first where the second is
    missing. Nothing after `limit` is read."""
    if quote := _QUOTE.match(text, start, limit):
        close = _closing(text, quote.end(), quote[0], limit)
        return quote.end(), limit if close is None else close
    opener = text[option.start() - 1] if option.start() else ""
    if opener in _PLAIN_QUOTES and not option["separator"].startswith(("\\", *_PLAIN_QUOTES)):
        close = _closing(text, start, opener, limit)
        if close is not None and not _SHELL.search(
            text, max(0, option.start() - 20), option.start()
        ):
            return start, close
    # Other fields may follow in the same word: in a URL, JSON or a list of settings.
    in_list = not option["dash"] and ((opener or " ") in "?&;,{=\"'" or "%" in option["separator"])
    run = (_RUN_IN_LIST if in_list else _RUN).match(text, start, limit)
    end = run.end() if run else start
    following = _NEXT_FIELD.search(text, start, end) if in_list else None
    return start, following.start() if following else end


def _closing(text: str, start: int, quote: str, limit: int) -> int | None:
    """ncu writes a word with spaces in double quotes, and does not escape quotes in it: one that
    ends a word closes."""
    if quote in _CLOSES:
        match = _CLOSES[quote].search(text, start, min(limit, start + _LONGEST_QUOTED))
        if match:
            return match.start()
    at = text.find(quote, start, limit)
    return at if at >= 0 else None


# --- values without a name


def _url_users(text: str) -> Iterator[Span]:
    """`u:p@` of URLs: `looks` does not find passwords that contain `/`, `@` or `#`."""
    for url in _WORD_WITH_URL.finditer(text):
        at = text.rfind("@", *url.span("rest"))
        if at >= 0 and not _HOST.match(text, *url.span("rest")):
            yield url.start("rest"), at
    yield from (match.span("user") for match in _QUOTED_URL.finditer(text))
    for match in _AT_HOST.finditer(text):
        if not match["password"].isdigit():
            yield match.span("user")
    yield from (match.span(match.lastgroup or 0) for match in _ORACLE.finditer(text))


def _short_options(text: str) -> Iterator[Span]:
    """`-u user:password` of any program; `-p secret` of commands that log in."""
    for match in _IDENTIFIED.finditer(text):
        yield match.span("value")
    logins, seen, user_end = list(_LOGIN.finditer(text))[::-1], set[str](), -1
    for match in _SHORT.finditer(text):
        while logins and logins[-1].start() < match.start():
            seen.add(logins.pop().lastgroup or "")
        start, end = match.span("value")
        if match["option"] in "uU":
            value = match["value"].strip("\"'")
            share = _SHARE_USER.fullmatch(value) if match["option"] == "U" else None
            if share or _has_password(value):
                sign = "%" if share else ":"
                yield text.index(sign, start) + 1, end - (text[end - 1] in _PLAIN_QUOTES)
            user_end = end if _USER_NAME.fullmatch(match["value"]) else -1
        elif _is_password(seen, match, after_user=match.start() - user_end == 1):
            yield start, end


def _is_password(seen: set[str], match: re.Match[str], *, after_user: bool) -> bool:
    """Not a port; glued to its letter only where the command allows it. `seen`: the
    kinds of login commands before it."""
    value, option = match["value"], match["option"]
    if option in _OWN:
        return _OWN[option] in seen and (option != "b" or "=" in value)
    if not match["space"]:
        return any(_GLUED.get(kind) == option for kind in seen)
    is_port = value.isdigit() and len(value) < 6
    if is_port:
        return bool(seen & {"any", "sshpass"})
    return after_user or bool(seen & _PLAIN_LOGINS)


_LONG_WORD = re.compile(r"(?<![\w./\\~+-])[A-Za-z0-9_~+=-]{24,}+(?:[A-Za-z0-9_~+=/-]*+)(?![.\\])")
_SIGNS = re.compile(r"[_~+=/-]+")


_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
"""Of snake_case, kebab-case, dotted and camelCase names, without numbers."""
_FOREIGN = re.compile(r"[^\W\d_]+")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_AROUND = _words("""
    b64 backup default dev encoded env hex id main new old plain prod production raw staging str
    string test text val value
    """)
"""Words after the one that decides: `API_KEY_PROD`, `token_value`."""

_PASSWORDS = tuple(
    _words("""
    password passwd passphrase passcode passwort pswd psw kennwort contrasena contraseña
    senha motdepasse wachtwoord passord lösenord hasło parola пароль 密码 パスワード
    requirepass userpass sshpass passin passout mnemonic otp totp
    """)
)
"""Any value is secret, numbers too. Also at the end of a longer word: `PGPASSWORD`."""
_SECRETS = tuple(_words("secret secretkey apikey accesskey privatekey authkey jwt cookie bearer"))
"""Any value that is not a truth value."""
_LOGINS = _words("""
    account admin auth cert db database email ftp git http https key keystore ldap login mail
    archive docker imap jdbc jenkins kafka mariadb mongo mongodb mqtt mssql mysql oracle pg pop
    postgres postgresql proxy rabbitmq rclone redis registry root sa samba service sftp smb smtp sql
    ssh ssl store sudo svn tls truststore user vnc vpn webdav wifi zip
    """)
_SECRET_KEYS = _words("""
    access account admin aes anthropic api app application auth aws azure bot client cohere comet
    crypto deploy encryption encrypt function functions gcp gemini github gitlab google gpg groq hf
    hmac huggingface host integration jwt licence license maps master mistral neptune ngc nvidia
    openai pgp private project rsa secret service session shared sign signing ssh ssl storage stripe
    subscription symmetric tls wandb webhook x
    """)
"""`--sort-key name` and `--hash-key 7` are not secret."""
_ORDINARY_TOKENS = _words("""
    added audio begin block bos by cls decode draft each end eos first generated image input
    last mask max min n new next no num number of one out output pad padding per prefill prompt
    sep single skip special start stop target unk video
    """)
"""Before `token`, a text or a count of a language model: `--eos-token </s>`."""
_ORDINARY_PASSES = _words("""
    all backward both bprop bwd decode dgrad eval first forward fprop fwd infer inference last
    multi no none one prefill second single test third train training two wgrad
    """)
_PROGRAM_PASSES = _words("""
    blur code compile compiler compute copy depth geometry gemm light lighting llvm loop lower mlir
    opt optimization optimizer post pre radix reduce render scan shader shadow sort sub tile
    """)
"""Before `pass`, a step of a program."""
_PASS_VALUE = re.compile(r"(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])[^\s/._-]{8,}")
_NO_VALUES = _words("0 1 true false yes no on off none null auto default")

_NUMBER = re.compile(r"[+-]?[\d_,.:x*/-]*\d(?:[eE][+-]?\d+)?(?:[kKmMgGtT]i?[bB]?)?[/,;]?")
"""A number, size, range, list or shape: `4096`, `128k`, `0-15`, `64x64`."""
_SPECIAL = re.compile(r"</?\|?[A-Za-z_]{1,24}\|?>|\[[A-Z]{2,8}\]")
"""A special token of a tokenizer: `<|endoftext|>`, `[PAD]`."""
_PATH = re.compile(
    r"~?[./\\].*|[A-Za-z]:[\\/].*|.*\.(?:pem|key|crt|cer|json|ya?ml|txt|env|toml|pub|p12)"
)
_DIGITS = re.compile(r"\d{4,12}")
_USER = re.compile(r"(?P<user>[^:\s]*):(?P<password>.+)", 16)


def _says_secret(name: str, value: str) -> bool:
    """Whether this value of an option, variable or field is to be masked.

    The last word decides: `--secret-sharing-rounds 4` is a count, `--token-file x` a path. What a
    name means also depends on the value: `--token 4096` is a size, `--password 4096` a password.
    """
    words = _deciding(name)
    if not words or not value:
        return False
    last, before = words[-1], words[:-1]
    if last.endswith(_PASSWORDS):
        return True
    if last.endswith(("pass", "pwd", "pw")):
        return _is_pass(before, last, value)
    if last == "pin":  # not `--pin 1` (pinned memory)
        return _DIGITS.fullmatch(value) is not None
    if last == "code":
        return bool(before) and before[-1] in ("pin", "mfa", "otp", "security", "verification")
    return value.lower() not in _NO_VALUES and _is_credential(before, last, value)


def _deciding(name: str) -> list[str]:
    """The words of the name in lower case, up to the one that decides."""
    words = [word.lower() for word in (_PARTS if name.isascii() else _FOREIGN).findall(name)]
    while len(words) > 1 and words[-1] in _AROUND:
        words.pop()
    if words[-3:] == ["mot", "de", "passe"]:
        words[-3:] = ["motdepasse"]
    if words[-2:-1] == ["pass"]:  # `passWord`, `PASS_PHRASE`
        words[-2:] = ["pass" + words[-1]]
    return words


def _is_pass(before: Sequence[str], last: str, value: str) -> bool:
    """`--db-pass x` and `--pass x`, but not `--pass forward`, `--render-pass 2`, `--pw 1` or the
    folder `PWD=/x`."""
    if last.endswith("pwd"):
        return bool(before) or last not in ("pwd", "oldpwd") or not _PATH.fullmatch(value)
    if last not in ("pass", "pw"):
        return last.removesuffix("pass") in _LOGINS
    if before:
        is_ordinary = before[-1] in _ORDINARY_PASSES | _PROGRAM_PASSES
        has_form = _PASS_VALUE.fullmatch(value) is not None
        return before[-1] in _LOGINS or (has_form and not is_ordinary)
    return not _NUMBER.fullmatch(value) and value.lower() not in _ORDINARY_PASSES | _NO_VALUES


def _is_credential(before: Sequence[str], last: str, value: str) -> bool:
    """The value is not a truth value."""
    if last.endswith(_SECRETS):
        return not (last.endswith("privatekey") and _PATH.fullmatch(value))
    if last.endswith("token"):
        return _is_token(before, value)
    is_key = last == "key" and bool(before) and before[-1] in _SECRET_KEYS
    if is_key and before[-1] in ("api", "access", "secret"):
        return True
    if is_key or last in _LISTS:
        return not (_NUMBER.fullmatch(value) or _PATH.fullmatch(value))
    if last == "oauth":
        return _PASS_VALUE.fullmatch(value) is not None
    return _has_login(last, value) or (last in _WEAK and _is_random(value, 16))


def _has_login(last: str, value: str) -> bool:
    """`--user bob:x`, but not `--login host:22`."""
    if last == "login":
        return _has_password(value) and not value.rpartition(":")[2].isdigit()
    if last == "auth" and _is_random(value, 8):
        return True
    return last in ("auth", "user") and _has_password(value)


_LISTS = _words("passwords secrets credential credentials creds authorization")
_WEAK = _words("""
    key keys apikeys tokens sig signature session sid sessionid sas pat hmac webhook wandb login
    """)
"""Secret only if the value looks random."""


def _is_token(before: Sequence[str], value: str) -> bool:
    if before and before[-1] in _ORDINARY_TOKENS:
        return False
    if _NUMBER.fullmatch(value):
        return value.isdigit() and len(value) > 12
    return not _SPECIAL.fullmatch(value)


def _has_password(value: str) -> bool:
    """`user:password`, but not `1000:1000` (user and group) or `C:\\path`."""
    match = _USER.fullmatch(value)
    if match is None or (match["user"] + match["password"]).isdigit():
        return False
    return not (len(match["user"]) == 1 and match["password"][0] in "\\/")


def _is_random(value: str, shortest: int) -> bool:
    """Letters and digits in an order that words and numbers rarely have."""
    return len(value) >= shortest and _changes(value) > 0.3


def is_mixed(value: str) -> bool:
    """The same for a value without a name: as many changes as only random characters have."""
    kinds = (str.isdigit, str.isupper, str.islower)
    has_each = all(sum(map(kind, value)) >= 3 for kind in kinds)
    return len(value) >= 20 and has_each and _changes(value) > 0.45


def _changes(value: str) -> float:
    """Changes between upper case, lower case and digits per character."""
    kinds = [(c.isdigit(), c.isupper()) for c in value[:64] if c.isalnum()]
    changes = sum(one != other for one, other in pairwise(kinds))
    return changes / max(1, len(kinds))
