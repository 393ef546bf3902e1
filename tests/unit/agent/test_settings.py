"""Which model is asked: arguments, environment, config file, and their errors."""

from pathlib import Path
from typing import Any

import pytest

from keet.agent.model.settings import PROVIDERS, ModelSpec, config_file, find_model, provider_of
from keet.errors import UsageError
from keet.files import cache_folder
from tests.rows import each_row

URL = "http://127.0.0.1:8000/v1"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("KEET_MODEL", "KEET_BASE_URL", "KEET_PRICE", "KEET_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "keet").mkdir()
    return tmp_path


def write(home: Path, text: str) -> None:
    (home / "keet" / "config.toml").write_text(text)


def found(*arguments: object, **options: object) -> ModelSpec:
    spec = find_model(*arguments, **options)  # type: ignore[arg-type]
    assert spec is not None
    return spec


def test_arguments_before_the_environment_before_the_file(home: Path, monkeypatch) -> None:
    assert find_model() is find_model("", "", "") is None
    write(home, 'model = "file"\nbase_url = "http://file/v1"\nprice = [1, 2.5]\ntimeout = 7')
    assert find_model() == ("file", "http://file/v1", 7.0, (1.0, 2.5), 2, None)
    monkeypatch.setenv("KEET_MODEL", "variable")
    monkeypatch.setenv("KEET_BASE_URL", "http://variable/v1/")
    monkeypatch.setenv("KEET_PRICE", "3,4")
    assert find_model() == ("variable", "http://variable/v1", 7.0, (3.0, 4.0), 2, None)
    assert find_model("mine", URL, (5, 6)) == ("mine", URL, 7.0, (5.0, 6.0), 2, None)


def test_a_name_with_provider_ignores_the_configured_server(home: Path) -> None:
    """Prompts would go to the wrong machine. A server without a name of a model may be slow."""
    assert found(None, URL).name == ""
    assert found(None, URL).timeout_s > found("openai:gpt-5").timeout_s > 60
    write(home, f'model = "qwen"\nbase_url = "{URL}"\ntime_limit = 90')
    spec = found("llama3:8b")
    assert (spec.name, spec.base_url, spec.time_limit_s) == ("llama3:8b", URL, 90.0)
    assert found("openai:gpt-5").base_url is None
    assert found("openai:gpt-5", URL).base_url == URL
    assert found("qwen", URL, time_limit_s=5.0).time_limit_s == 5.0


def test_a_price_of_another_model_is_ignored(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home, 'model = "openai:a"\nprice = "1,2"')
    assert [found(f"openai:{name}").price for name in "ba"] == [None, (1, 2)]
    monkeypatch.setenv("KEET_PRICE", "7/8")
    assert found("openai:b").price == (7, 8)


@each_row(
    ("text", "named"),
    [
        ("time_limit = -1", "time_limit must be a number of seconds above 0"),
        *(
            ("model = ", "TOML"),
            ("model = 3", "model must be a name"),
            ("base_url = 1", "base_url"),
        ),
        *((f"price = {wrong}", "price") for wrong in ("[1]", "[1, -2]", "'x'", "[true, false]")),
        *(("timeout = 0", "timeout"), ("timeout = inf", "timeout")),
        *(("base_url = 'localhost:8000'", "base_url"), ("modle = 'x'", "modle is not a setting")),
        *(("[model]\nname = 'x'", "model must be"), (b"\xff\xfe\x00", "config.toml")),
        (None, "can't be read"),
    ],
)
def test_a_broken_file_is_named_with_its_key(home: Path, text: Any, named: str) -> None:
    """None: a folder in its place."""
    file = home / "keet" / "config.toml"
    file.unlink(missing_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode()) if text else file.mkdir()
    with pytest.raises(UsageError) as caught:
        find_model("openai:gpt-5")
    line = str(caught.value)
    assert all(part in line for part in (str(config_file()), named, ";"))
    assert "\n" not in line


@each_row("url", ["localhost:8000", "ftp://u:hunter2hunter2@x/v1", "http://", "http://[::1", "x"])
def test_an_invalid_url_is_an_error(url: str) -> None:
    with pytest.raises(UsageError, match=r"--base-url: .* write it as http") as caught:
        find_model("qwen", url)
    assert "hunter2" not in str(caught.value)


@each_row("price", ["1", "1,2,3", "a,b", "nan,1", "-1,2", "1,inf"])
def test_an_invalid_price_is_an_error(price: str) -> None:
    """The format in the message is accepted."""
    with pytest.raises(UsageError, match=r"--price: .* per million") as caught:
        find_model("qwen", URL, price)
    form = str(caught.value).split('as "')[1].rstrip('"')
    assert found("qwen", URL, form).price == (2.5, 10)


def test_the_cache_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_folder() == home / "home" / ".cache" / "keet"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == home / "home" / ".cache" / "keet"
    for name, value, folder in (("XDG_CACHE_HOME", "/x", "/x/keet"), ("KEET_CACHE", "/y", "/y")):
        monkeypatch.setenv(name, value)
        assert cache_folder() == Path(folder)


def test_providers_are_those_of_langchain() -> None:
    from langchain.chat_models import base

    assert set(base._BUILTIN_PROVIDERS) <= PROVIDERS
    providers = [provider_of(name) for name in ("openai:gpt-5", "qwen2.5:7b", "openai")]
    assert providers == ["openai", None, None]
