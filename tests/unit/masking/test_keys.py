"""Keys are removed from texts, in whatever form they are written."""

import base64
import json
import re
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.masking import command_line, keys
from keet.masking.keys import key_in, quotable, remember_url, scrub, scrub_document
from tests.hostile_behaviours import HIDDEN, in_base64
from tests.long_texts import growth
from tests.rows import each_row

KEY = "corp/key+with=odd&signs"


def test_values_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key inside a key is removed completely; values of other variables are kept."""
    names = "OPENAI_API_KEY HF_TOKEN DB_PASSWORD AWS_SECRET_ACCESS_KEY MY_SECRET my_apikey"
    for name in names.split():
        with monkeypatch.context() as patch:
            patch.setenv(name, KEY)
            assert scrub(f"a {KEY} b") == "a [key] b"
            assert key_in("?q=corp%2Fkey%2Bwith%3Dodd%26signs") == f"the value of {name}"
    for name, value in {"C_TOKEN": "short", "HOME_FOLDER": "mnopqrstuvwx"}.items():
        monkeypatch.setenv(name, value)
        assert scrub(f"a {value} b") == f"a {value} b"
    for name, value in {"A_TOKEN": "abcdefgh", "B_TOKEN": "abcdefghijkl"}.items():
        monkeypatch.setenv(name, value)
    assert scrub("abcdefghijkl") == "[key]"


@each_row("text, clean", [
    ("key sk-proj-Ab12_cd34-ef56 end", "key [key] end"),
    ("Incorrect API key provided: sk-abcd****wxyz.", "Incorrect API key provided: [key]"),
    ("Incorrect API key provided: zz**99, see", "Incorrect API key provided: [key], see"),
    ("Authorization: Bearer abc.def-123456", "Authorization: Bearer [key]"),
    ('{"x-api-key": "abcdef123456"}', '{"x-api-key": "[key]"}'),
    ("https://user:pass@host/v1", "https://[key]@host/v1"),
    ("http://host/v1?api_key=abc&x=1", "http://host/v1?api_key=[key]&x=1"),
    ("http://h/?x=1&sig=abc&token=def", "http://h/?x=1&sig=[key]&token=[key]"),
    ("GET /v1/models?key=abc HTTP/1.1", "GET /v1/models?key=[key] HTTP/1.1"),
    ("rk_test_4eC39HqLyjWDarjtT1zdp7dc", "[key]"),
    ("pk-4eC39HqLyjWDarjtT1zdp7dc", "[key]"),
    ("gsk_Abcdefgh12345678Ijklmnop", "[key]"),
    ("hf_" + "aBcDeFgHiJ" * 3 + "aBcD", "[key]"),
    ("sk_live_4eC39HqLyjWDarjtT1zdp7dc", "[key]"),
    ("nvapi-Ab_cd-EFgh_1234-ijkl_5678", "[key]"),
    ("lsv2_pt_0123456789abcdef0123456789abcdef_0123456789", "[key]"),
    ("key gsk_****wxyz", "key [key]"),
    ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [key]"),
    ("(b'authorization', b'Bearer abcdefgh')", "(b'authorization', b'Bearer [key]')"),
    ("sent Bearer abcdefghij0123456789xyz", "sent Bearer [key]"),
    ("AIzaSyA1234567890abcdefghijklmnopqrstu", "[key]"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2ln", "[key]"),
])  # fmt: skip
def test_what_looks_like_a_key(text: str, clean: str) -> None:
    assert scrub(text) == clean


@each_row("text", [
    "for (int i = 0; i < n; i += sk) a[i] = task-specific_thing_of_mine;",
    "hf_transform_the_rows(int*, float)",
    "the bearer of news; basic blocks",
    "pk_reduce_kernel_for_all",
    "a basic reduction; the bearer responsibilities",
    "rk_integrate_stage_4 and fw_convolution_3x3",
    "hf_attention_fwd_v2, r8_uniform_array_01, pk_convert_f16_to_f32",
    "sk-row_offset",
    "http://127.0.0.1:8000/v1 and e@mail",
    "smsp__inst_executed.sum [inst] 14680064",
    "tokens: 12,000; key: value",
    "if (flag &&key==target) x = 1; if (a&key==b)",
    "auto f = [&key=table[i]](int x) {}; y = ok ?token=3 : 4;",
    "//if(a&key=b) /*c&token=d*/ x/y?key=1:2",
    "rk_integrateStep4thOrderFixed<float>(float*)",
    "pk_transposeTileShared32x33Kernel, fw_conv2dForwardImplicitGemm",
])  # fmt: skip
def test_code_and_prose_are_kept(text: str) -> None:
    assert scrub(text) == text


def test_a_document_is_scrubbed_before_it_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", 'with"quote\\s')
    document = {"a": ['x with"quote\\s', 1, None, True], 'with"quote\\s': {"b": ("y",)}}
    clean = scrub_document(document)
    assert clean == {"a": ["x [key]", 1, None, True], "[key]": {"b": ["y"]}}
    assert json.dumps(clean)


# Keys that are hidden: what has them is dropped as a whole

SECRET = "sk-proj-Ab12_cd34-ef56GH78ijKL90mnOP"
HALF = len(SECRET) // 2
FORMS: dict[str, str] = {name: hide(SECRET) for name, hide in HIDDEN.items()}
FORMS |= {
    "two items": json.dumps([SECRET[:HALF], SECRET[HALF:]]),
    "two literals": f'"{SECRET[:HALF]}" + "{SECRET[HALF:]}"',
    "JSON lines": json.dumps(f"{SECRET[:HALF]}\n{SECRET[HALF:]}"),
    "entities without semicolons": "".join(f"&#{ord(char)} " for char in SECRET),
    "entities in base 16": "".join(f"&#x{ord(char):X};" for char in SECRET),
    "soft hyphens of HTML": "&shy;".join(SECRET),
    "C": "".join(f"\\x{ord(char):02x}" for char in SECRET),
    "octal escapes": "".join(f"\\{ord(char):03o}" for char in SECRET),
    "percent in percent": "".join(f"%25{ord(char):02x}" for char in SECRET),
    "comments of HTML": "<!-- x -->".join(SECRET),
    "some entities": SECRET.replace("A", "&#65;").replace("p", "&#x70;"),
    "the end": SECRET[-18:],
    "the middle in base64": in_base64(SECRET[8:26]),
    "base64, dashes": "-".join(in_base64(SECRET)),
    "base 85, spaces": " ".join(HIDDEN["base 85"](SECRET)),
    "UTF-16": base64.b64encode(SECRET.encode("utf-16-le")).decode(),
}


AROUND = ("The key is {}, after all.", '{{"summary": "{}\\nIt waits."}}')


@each_row(("form", "around"), product(FORMS, AROUND))
def test_a_hidden_key_is_found(form: str, around: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", SECRET)
    text = around.format(FORMS[form])
    assert (key_in(text), quotable(text)) == (
        "the value of A_TOKEN",
        "[removed: it contains a key]",
    )


INNER = sorted(HIDDEN.keys() - {"base64 twice", "base64 of gzip"})
OUTER = ("base64", "base 16", "base 85", "ROT13", "backwards", "entities")


@each_row(("inner", "outer"), product(INNER, OUTER))
def test_two_encodings(inner: str, outer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", SECRET)
    assert key_in(f"The key is {HIDDEN[outer](HIDDEN[inner](SECRET))}, after all.")


HONEST = (
    *sorted(Path("tests/transcripts").glob("*.jsonl"))[:2],
    *(Path("docs/agent.md"), Path("keet/units.py")),
)
VALUES = {
    "A_TOKEN": SECRET,
    "B_TOKEN": "hf_" + "QwErTyUiOp" * 3,
    "C_API_KEY": "0123456789abcdef0123456789abcdef",
    "D_API_KEY": "EMPTY",
    "E_API_KEY": "none",
    "F_API_KEY": "sk-1",
    "SORT_KEY": "shared_memory_v2",
    "G_SECRET": "000000000000",
    "H_TOKEN": "123456789012",
}


@pytest.mark.slow
@each_row("path", HONEST)
def test_honest_texts_contain_no_key(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with values that are words, as other programs set them."""
    for name, value in VALUES.items():
        monkeypatch.setenv(name, value)
    assert key_in(path.read_text()[:20_000]) is None


def test_a_key_with_an_escape_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undoing the escapes of a text changes the key in it, too."""
    missed = []
    for key in ("Ab12\\x41cd34\\nef56GH", "Ab12%41cd34%2Bef56GH", "Ab12&amp;cd34&#65;ef56GH78"):
        monkeypatch.setenv("A_TOKEN", key)
        forms = {name: hide(key) for name, hide in HIDDEN.items()}
        forms |= {"plain": key, "JSON": json.dumps(key), "twice": json.dumps(json.dumps(key))}
        missed += [(key, n) for n, form in forms.items() if not key_in(f"before {form} after")]
    assert missed == []


def test_values_that_are_words_or_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are cut out where they are plain, and found behind escapes; with other characters
    between their letters they are ordinary text."""
    monkeypatch.setenv("SORT_KEY", "shared_memory")
    assert scrub("Shared Memory, shared-memory banks") == "Shared Memory, shared-memory banks"
    assert scrub("by shared_memory") == "by [key]"
    assert key_in("Shared Memory, by shared_memory") is None
    assert key_in("by shared_memory, by &#115;hared_memory") == "the value of SORT_KEY"
    monkeypatch.setenv("X_TOKEN", "123456789012")
    assert key_in("1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2") is None
    monkeypatch.setenv("X_TOKEN", "000000000000")
    assert scrub("0x0000000000000000 0.00, 0.00") == "0x0000000000000000 0.00, 0.00"
    monkeypatch.setenv("X_TOKEN", "hf_" + "QwErTyUiOp" * 3)
    assert key_in("hf_ " + " ".join("QwErTyUiOp" * 3)) == "the value of X_TOKEN"


def test_what_only_looks_like_a_key_is_found_behind_escapes_too() -> None:
    unknown = "sk-proj-Zz98_yx76-wv54UT32"
    for name in ("entities", "percent", "escapes", "entities in entities"):
        assert key_in(f"before {HIDDEN[name](unknown)} after") == "text that looks like a key", name
    assert key_in(f"before {unknown} after") is None


def test_keys_of_a_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "_of_urls", set())
    remember_url("http://someone:hunter2%2Fhunter2hunter2@host/v1?api-key=Zz98yx76wv54UT32")
    assert scrub("it is hunter2/hunter2hunter2") == "it is [key]"
    assert key_in("it is &#104;unter2/hunter2hunter2") == "a key of --base-url"
    assert key_in(in_base64("Zz98yx76wv54UT32")) == "a key of --base-url"
    remember_url("http://[broken")
    remember_url(None)


# In time that grows with the text alone

_SLOW = {
    "words": re.compile(r"\bsk-(?=[\w*-]*[\d*])[\w*-]{8,}"),
    "web tokens": re.compile(r"\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*"),
    "users": re.compile(r"(?i)\b[a-z][a-z0-9+.-]*://([^\s/@?\#\"']+)(?=@)"),
}
"""As they were written first: clear, and in the square of the length."""

PARTS = (
    *("sk-", "sk_", "hf_", "gsk_live_", "eyJ", "xai-", "AIza", "AKIA", "github_pat_", "a://"),
    *("x1.b-c://", "abc", "ABC0", "0123456789", "QwErTyUiOp", "***", *".-_ @/:?", "[key]"),
)


@given(st.lists(st.sampled_from(PARTS), max_size=30).map("".join))
def test_fast_and_slow_patterns_find_the_same(text: str) -> None:
    slow = {name: [match.span() for match in found.finditer(text)] for name, found in _SLOW.items()}
    fixed = {match.span() for pattern in command_line._LOOKS for match in pattern.finditer(text)}
    by_itself = {*slow["words"], *slow["web tokens"]}
    assert {*command_line.looks_by_itself(text)} - fixed == by_itself - fixed
    users = [match.span("user") for match in command_line._AFTER.finditer(text) if match["user"]]
    expected = [match.span(1) for match in _SLOW["users"].finditer(text)]
    # The scheme is not read any more: one that begins with a digit is taken for one, too.
    assert set(expected) <= set(users)


PUMPS = (
    *("sk-", "sk-a", "eyJ-", "eyJaaaaaaaaaa.", "a.", "a-", "a://b", "?key", "hf_a", "bearer "),
    *("authorization ", "<", "&#", "\\", "%25", "&amp;", "<!--", "api key provided:", "]("),
    *("065", "65 ", "eJw", "QUFB", "x "),
)


@pytest.mark.slow
def test_no_text_takes_quadratic_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", SECRET)
    assert [pump for pump in PUMPS if growth(scrub, pump, 4000) > 4] == []
    assert [pump for pump in PUMPS if growth(key_in, pump, 200) > 4] == []
