"""Which model is asked: arguments, environment, config file, and their errors."""

from pathlib import Path

import pytest

from keet.agent.model.settings import PROVIDERS, config_file, find_model, provider_of
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


def test_no_model_is_named() -> None:
    assert find_model() is None
    assert find_model("", "", "") is None


def test_arguments_before_the_environment_before_the_file(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home, 'model = "file"\nbase_url = "http://file/v1"\nprice = [1, 2.5]\ntimeout = 7')
    spec = find_model()
    assert spec == ("file", "http://file/v1", 7.0, (1.0, 2.5), 2, None)
    monkeypatch.setenv("KEET_MODEL", "variable")
    monkeypatch.setenv("KEET_BASE_URL", "http://variable/v1/")
    monkeypatch.setenv("KEET_PRICE", "3,4")
    assert find_model() == ("variable", "http://variable/v1", 7.0, (3.0, 4.0), 2, None)
    assert find_model("mine", URL, (5, 6)) == ("mine", URL, 7.0, (5.0, 6.0), 2, None)


def test_a_name_without_provider_uses_the_configured_server(home: Path) -> None:
    write(home, f'model = "qwen"\nbase_url = "{URL}"')
    spec = find_model("llama3:8b")
    assert spec is not None
    assert (spec.name, spec.base_url) == ("llama3:8b", URL)


def test_a_name_with_provider_ignores_the_configured_server(home: Path) -> None:
    """Prompts would go to the wrong machine."""
    write(home, f'model = "qwen"\nbase_url = "{URL}"')
    spec = find_model("openai:gpt-5")
    assert spec is not None
    assert spec.base_url is None
    both = find_model("openai:gpt-5", URL)
    assert both is not None
    assert both.base_url == URL


def test_a_price_of_another_model_is_ignored(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home, 'model = "openai:a"\nprice = "1,2"')
    assert find_model("openai:b").price is None  # type: ignore[union-attr]
    assert find_model("openai:a").price == (1, 2)  # type: ignore[union-attr]
    monkeypatch.setenv("KEET_PRICE", "7/8")
    assert find_model("openai:b").price == (7, 8)  # type: ignore[union-attr]


def test_a_server_without_a_model_name_gets_a_longer_timeout() -> None:
    own, hosted = find_model(None, URL), find_model("openai:gpt-5")
    assert own is not None
    assert hosted is not None
    assert own.name == ""
    assert own.timeout_s > hosted.timeout_s > 60


def test_the_time_limit_of_a_run(home: Path) -> None:
    write(home, "time_limit = 90")
    assert find_model("qwen", URL).time_limit_s == 90.0  # type: ignore[union-attr]
    assert find_model("qwen", URL, time_limit_s=5.0).time_limit_s == 5.0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("time_limit = -1", "time_limit must be a number of seconds above 0"),
        ("model = ", "TOML"),
        ("model = 3", "model must be a name"),
        ("base_url = 'localhost:8000'", "base_url"),
        ("base_url = 1", "base_url must be a URL"),
        ("price = [1]", "price"),
        ("price = [1, -2]", "price"),
        ("price = 'cheap'", "price"),
        ("price = [true, false]", "price"),
        ("timeout = 0", "timeout"),
        ("timeout = inf", "timeout"),
        ("modle = 'x'", "modle is not a setting"),
        ("[model]\nname = 'x'", "model must be"),
    ],
)
def test_a_broken_file_is_named_with_its_key(home: Path, text: str, named: str) -> None:
    write(home, text)
    with pytest.raises(UsageError) as caught:
        find_model("openai:gpt-5")
    line = str(caught.value)
    assert str(config_file()) in line
    assert named in line
    assert ";" in line
    assert "\n" not in line


def test_a_config_file_that_is_not_text_is_an_error(home: Path) -> None:
    (home / "keet" / "config.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"config\.toml"):
        find_model()


def test_a_folder_instead_of_the_file_is_an_error(home: Path) -> None:
    (home / "keet" / "config.toml").mkdir()
    with pytest.raises(UsageError, match="can't be read"):
        find_model()


@each_row("url", ["localhost:8000", "ftp://x/v1", "http://", "http://[::1", "x"])
def test_an_invalid_url_is_an_error(url: str) -> None:
    with pytest.raises(UsageError, match=r"--base-url: .* write it as http"):
        find_model("qwen", url)


def test_a_key_in_an_invalid_url_is_not_printed() -> None:
    with pytest.raises(UsageError) as caught:
        find_model("qwen", "ftp://user:hunter2hunter2@host/v1")
    assert "hunter2" not in str(caught.value)


@each_row("price", ["1", "1,2,3", "a,b", "nan,1", "-1,2", "1,inf"])
def test_an_invalid_price_is_an_error(price: str) -> None:
    with pytest.raises(UsageError, match=r"--price: .* per million"):
        find_model("qwen", URL, price)


def test_the_price_format_in_the_error_message_is_accepted() -> None:
    with pytest.raises(UsageError) as caught:
        find_model("qwen", URL, "cheap")
    form = str(caught.value).split('as "')[1].rstrip('"')
    spec = find_model("qwen", URL, form)
    assert spec is not None
    assert spec.price == (2.5, 10)


def test_the_cache_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_folder() == home / "home" / ".cache" / "keet"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == home / "home" / ".cache" / "keet"
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_folder() == Path("/x/keet")
    monkeypatch.setenv("KEET_CACHE", "/y")
    assert cache_folder() == Path("/y")


def test_providers_are_those_of_langchain() -> None:
    from langchain.chat_models import base

    assert set(base._BUILTIN_PROVIDERS) <= PROVIDERS
    assert provider_of("openai:gpt-5") == "openai"
    assert provider_of("qwen2.5:7b") is None
    assert provider_of("openai") is None
