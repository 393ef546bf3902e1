"""Whether the name of an option or variable says that its value is secret.

The last word decides: `--secret-sharing-rounds 4` is a count, `--token-file x` a path. What a name
means also depends on the value: `--token 4096` is a size, `--password 4096` a password.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

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


def is_secret(name: str, value: str) -> bool:
    """Whether this value of an option, variable or field is to be masked."""
    words = _deciding(name)
    if not words or not value:
        return False
    last, before = words[-1], words[:-1]
    if last.endswith(_PASSWORDS):
        return True
    if last.endswith(("pass", "pwd", "pw")):
        return _is_pass(before, last, value)
    if last in ("pin", "code"):
        return _is_code(before, last, value)
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


def _is_code(before: Sequence[str], last: str, value: str) -> bool:
    """`--pin 1234` and `--mfa-code x`, but not `--pin 1` (pinned memory)."""
    if last == "code":
        return bool(before) and before[-1] in ("pin", "mfa", "otp", "security", "verification")
    return bool(_DIGITS.fullmatch(value))


def _is_credential(before: Sequence[str], last: str, value: str) -> bool:
    """The value is not a truth value."""
    if last.endswith(_SECRETS):
        return not (last.endswith("privatekey") and _PATH.fullmatch(value))
    if last.endswith("token"):
        return _is_token(before, value)
    if last == "key" and before and before[-1] in _SECRET_KEYS:
        return _is_key(before[-1], value)
    if last in _LISTS:
        return not (_NUMBER.fullmatch(value) or _PATH.fullmatch(value))
    if last == "oauth":
        return _PASS_VALUE.fullmatch(value) is not None
    return _has_login(last, value) or (last in _WEAK and is_random(value, 16))


def _has_login(last: str, value: str) -> bool:
    """`--user bob:x`, but not `--login host:22`."""
    if last == "login":
        return has_password(value) and not value.rpartition(":")[2].isdigit()
    if last == "auth" and is_random(value, 8):
        return True
    return last in ("auth", "user") and has_password(value)


_LISTS = _words("passwords secrets credential credentials creds authorization")
_WEAK = _words("""
    key keys apikeys tokens sig signature session sid sessionid sas pat hmac webhook wandb login
    """)
"""Secret only if the value looks random."""


def _is_key(kind: str, value: str) -> bool:
    if kind in ("api", "access", "secret"):
        return True
    return not (_NUMBER.fullmatch(value) or _PATH.fullmatch(value))


def _is_token(before: Sequence[str], value: str) -> bool:
    if before and before[-1] in _ORDINARY_TOKENS:
        return False
    if _NUMBER.fullmatch(value):
        return value.isdigit() and len(value) > 12
    return not _SPECIAL.fullmatch(value)


def has_password(value: str) -> bool:
    """`user:password`, but not `1000:1000` (user and group) or `C:\\path`."""
    found = _USER.fullmatch(value)
    if found is None or (found["user"] + found["password"]).isdigit():
        return False
    return not (len(found["user"]) == 1 and found["password"][0] in "\\/")


def is_random(value: str, shortest: int) -> bool:
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
