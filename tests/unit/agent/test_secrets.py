import json

import pytest

from keet.agent.secrets import scrub, scrub_document

KEY = "corp/key+with=odd&signs"


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "HF_TOKEN",
        "DB_PASSWORD",
        "AWS_SECRET_ACCESS_KEY",
        "MY_SECRET",
        "my_apikey",
    ],
)
def test_values_of_the_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, KEY)
    assert scrub(f"a {KEY} b") == "a [key] b"
    assert scrub("?q=corp%2Fkey%2Bwith%3Dodd%26signs") == "?q=[key]"


def test_a_key_within_a_key_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "abcdefgh")
    monkeypatch.setenv("B_TOKEN", "abcdefghijkl")
    assert scrub("abcdefghijkl") == "[key]"


@pytest.mark.parametrize(("name", "value"), [("A_TOKEN", "short"), ("HOME_FOLDER", "abcdefghijkl")])
def test_other_values_stay(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert scrub(f"a {value} b") == f"a {value} b"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("key sk-proj-Ab12_cd34-ef56 end", "key [key] end"),
        ("Incorrect API key provided: sk-abcd****wxyz.", "Incorrect API key provided: [key]"),
        ("Incorrect API key provided: zz**99, see", "Incorrect API key provided: [key], see"),
        ("Authorization: Bearer abc.def-123456", "Authorization: Bearer [key]"),
        ('{"x-api-key": "abcdef123456"}', '{"x-api-key": "[key]"}'),
        ("https://user:pass@host/v1", "https://[key]@host/v1"),
        ("http://host/v1?api_key=abc&x=1", "http://host/v1?api_key=[key]&x=1"),
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
    ],
)
def test_what_looks_like_a_key(text: str, clean: str) -> None:
    assert scrub(text) == clean


@pytest.mark.parametrize(
    "text",
    [
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
    ],
)
def test_code_and_prose_stay(text: str) -> None:
    assert scrub(text) == text


def test_a_document_is_scrubbed_before_it_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", 'with"quote\\s')
    document = {"a": ['x with"quote\\s', 1, None, True], 'with"quote\\s': {"b": ("y",)}}
    clean = scrub_document(document)
    assert clean == {"a": ["x [key]", 1, None, True], "[key]": {"b": ["y"]}}
    assert json.dumps(clean)
