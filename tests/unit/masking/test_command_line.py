"""Secrets of command lines are masked, and nothing else is."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.masking import MARK, command_line, masked, masked_names, masked_words
from tests.long_texts import growth
from tests.rows import each_row
from tests.unit.masking.secret_lines import ORDINARY, SECRET, lines


@each_row("line", lines(SECRET))
def test_secrets_are_masked(line: str) -> None:
    """Masking twice changes nothing."""
    once = masked(re.sub("[«»]", "", line))
    assert once == re.sub("«[^»]*»", MARK, line)
    assert masked(once) == once


@each_row("line", lines(ORDINARY))
def test_ordinary_values_are_kept(line: str) -> None:
    assert masked(line) == line


NAMES = (
    *("api-key", "apiKey", "API_KEY", "X-Api-Key", "openai.api_key", "dbPassword", "PASS_WORD"),
    *("accessToken", "clientSecret", "AWS_SECRET_ACCESS_KEY", "privateKey", "passphrase"),
    *("token", "secret", "passwd", "pwd", "hfToken", "auth-token", "db-pass", "PGPASSWORD"),
    *("API_KEY_2", "DB_PASSWORD_PROD", "passwort", "contraseña", "mot-de-passe", "tenant-pass"),
)
WAYS = (
    *("--{}={}", "--{} {}", "-{} {}", "--{}:{}", "{}={} ./app", "export {}={}; ./app", "--{} = {}"),
    *('--{}="{}"', "--{} '{}'", '"--{}={}"', '-H "{}: {}"', "-H {}: {}", "['--{}', '{}']"),
    *('{{"{}": "{}", "n": 4}}', '"{{\\"{}\\": \\"{}\\"}}"', "f({}='{}')", "-e {}={}", "-D{}={}"),
    *('bash -c "{}={} ./app"', "bash -c './app --{} {}'", "https://h/x?n=4&{}={}", "---{} {}"),
    *("Server=x;{}={}", "++model.{}={}", "a\\n{}={}", "--{}\\t{}", "--env={}={}"),
)
LINE, WRITTEN = "ncu -o r {} --size 4096", [*product(NAMES, WAYS)]
VALUE = st.characters(exclude_categories=["C", "Z"], exclude_characters="\"'`&#;%\\[]")


def test_no_way_to_write_a_secret_shows_it() -> None:
    shown = [masked(LINE.format(way.format(name, "hunter2x"))) for name, way in WRITTEN]
    assert [line for line in shown if "hunter2x" in line] == []
    assert {(line[:9], line[-12:]) for line in shown} == {("ncu -o r ", " --size 4096")}


def test_each_name_that_decides_is_looked_for() -> None:
    """Also one that is secret only with a value that looks random, as the only hint of a text."""
    names = product(sorted({*command_line._LISTS, *command_line._WEAK, "user"}), WAYS)
    values = {"user": "bob:hunter2x", "login": "bob:hunter2x"}
    written = [way.format(n, values.get(n, "a1B2c3D4e5F6g7H8i9")) for n, way in names]
    assert [line for line in written if "[masked]" not in masked(LINE.format(line))] == []


@given(st.sampled_from(WRITTEN), st.text(VALUE, min_size=3))
def test_no_value_of_a_secret_is_shown(written: tuple[str, str], value: str) -> None:
    name, way = written
    secret = f"q{value}7"
    shown = masked(LINE.format(way.format(name, secret)))
    assert secret not in shown
    assert shown.startswith("ncu -o r ")
    assert shown.endswith(" --size 4096")


def test_names_of_masked_values_and_lists_of_words() -> None:
    line = masked("DB_PASSWORD=a ./x --api-key 'b' -H 'Authorization: Bearer c' http://d:e@f")
    assert masked_names(line) == ["DB_PASSWORD", "api-key", "Authorization", "URL"]
    assert masked_names("./x --tokens 4096") == []
    words = ["./x", "--password", "a 'b", "--n", "4 5"]
    assert masked_words(words) == ("./x", "--password", MARK, "--n", "4 5")
    assert masked_words(["./x", "--n", "4 5"]) == ("./x", "--n", "4 5")


PUMPS = (
    *("--password=", '"password=\\"', "token=<", '"token=<\\"', "key=1;", 'key="', "key=(", "a "),
    *("://a:", "://a:b@", "https://h/?key=1&", "-u a:", "password ", '"password ', "-p ", "%3D"),
    *("'password=x \"", "login ", "mysql -p", "identified by '", "-----BEGIN PRIVATE KEY-----"),
    *("--key -", "aB3", "\\n", "密码=", "SG.aaaaaaaaaaaaaaaaaaaa", "eyJ", "sk-", "/password:"),
    *("a:b=", "a:b@", "--proxy a:b@", "-x  ", "'a://b:c ", "a/b@", "sqlplus -a ", "set a_token x "),
    *("-U a%", "curl -b a=", "x['key']=", "a.password ", "hooks.slack.com/a/", "curl openssl -k "),
)


@pytest.mark.slow
def test_no_text_takes_quadratic_time() -> None:
    assert [pump for pump in PUMPS if growth(masked, pump) > 4] == []
