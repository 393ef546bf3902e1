"""Which model to ask (from the arguments, the environment or the config file), how, and for how
long."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from keet.errors import UsageError, one_line
from keet.files import user_folder
from keet.formatting import enumerated
from keet.masking.keys import remember_url, scrub

_HOSTED_TIMEOUT_S = 240.0
_OWN_TIMEOUT_S = 600.0
"""A model on the user's own CPU takes minutes for an answer."""

_PROVIDERS = """
anthropic anthropic_bedrock azure_ai azure_openai baseten bedrock bedrock_converse
bedrock_mantle_anthropic bedrock_mantle_openai cohere deepseek fireworks google_anthropic_vertex
google_genai google_vertexai groq huggingface ibm langsmith litellm meta mistralai nvidia ollama
openai openrouter perplexity scripted together upstage xai
"""
PROVIDERS = frozenset(_PROVIDERS.split())
"""What may be before a colon. Needed because `qwen2.5:7b` is a name without provider. langchain has
the same list, but is slow to load; a test compares the two."""

Price = tuple[float, float]
Redaction = Literal["names", "source", "all"]
_SETTINGS = {
    "model": "a name in quotes",
    "base_url": "a URL",
    "price": "",
    "timeout": "a number of seconds above 0",
    "time_limit": "a number of seconds above 0",
}
"""Of the config file, and what they must be."""
MOST_LAUNCHES = 3
"""Launches that a model explains by default: each costs some thousand tokens."""


class ModelSpec(NamedTuple):
    name: str
    """`openai:gpt-5`, or the name that the server at `base_url` uses; empty: the first model that
    the server lists."""
    base_url: str | None
    timeout_s: float
    price: Price | None
    """US$ per million input and output tokens."""
    retries: int = 2
    """After rate limits, lost connections and server errors."""
    time_limit_s: float | None = None
    """For all calls of a command together; None: by the number of calls (`shared_limit`)."""


class _Source(NamedTuple):
    model: str | None
    base_url: str | None
    price: Price | None


def find_model(
    model: str | None = None,
    base_url: str | None = None,
    price: Price | str | None = None,
    time_limit_s: float | None = None,
) -> ModelSpec | None:
    """The model to ask; None if no model is named. Raises UsageError."""
    config, variables = _read_config(config_file()), os.environ
    sources = [
        _Source(model, _url(base_url, "--base-url"), _price(price, "--price")),
        _Source(
            variables.get("KEET_MODEL"),
            _url(variables.get("KEET_BASE_URL"), "KEET_BASE_URL"),
            _price(variables.get("KEET_PRICE"), "KEET_PRICE"),
        ),
        _Source(config.get("model"), config.get("base_url"), config.get("price")),
    ]
    name = next((source.model for source in sources if source.model), "")
    url = _base_url(sources, name)
    if name.endswith(":"):
        raise _error(f"{name} lacks the model's name: PROVIDER:NAME, as openai:gpt-5")
    if not (name or url):
        return None
    # A price is ignored if its source names another model.
    prices = (source.price for source in sources if source.model in (None, "", name))
    return ModelSpec(
        name,
        url,
        config.get("timeout", _OWN_TIMEOUT_S if url else _HOSTED_TIMEOUT_S),
        next(filter(None, prices), None),
        time_limit_s=config.get("time_limit") if time_limit_s is None else time_limit_s,
    )


def config_file() -> Path:
    return user_folder("XDG_CONFIG_HOME", ".config") / "keet" / "config.toml"


def provider_of(name: str) -> str | None:
    """`openai` of `openai:gpt-5`; None if the name has no provider."""
    provider, colon, _ = name.partition(":")
    return provider if colon and provider in PROVIDERS else None


def _base_url(sources: list[_Source], name: str) -> str | None:
    """A model with a provider (`openai:gpt-5`) must not be sent to a server that another source
    sets for another model: only the source that names the model, or one before it, can give the
    URL."""
    for source in sources:
        if source.base_url:
            return source.base_url
        if source.model == name and provider_of(name):
            return None
    return None


def _read_config(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        import tomllib

        settings = tomllib.loads(text)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise _broken(path, f"can't be read ({error.strerror})") from None
    except ValueError as error:
        raise _broken(path, f"is not TOML in UTF-8 ({error})") from None
    return {name: _setting(name, value, path) for name, value in settings.items()}


def _broken(path: Path, problem: str) -> UsageError:
    return _error(f"{path}: {problem}; correct it, or remove the file")


def _setting(name: str, value: Any, path: Path) -> Any:
    """Raises UsageError."""
    if name not in _SETTINGS:
        known = f"the settings are {enumerated([*_SETTINGS])}"
        raise _broken(path, f"{name} is not a setting; {known}")
    if name == "price":
        return _price(value, f"{path}: price")
    is_time = name in ("timeout", "time_limit")
    if not (_is_number(value) and value > 0 if is_time else isinstance(value, str)):
        raise _broken(path, f"{name} must be {_SETTINGS[name]}")
    return _url(value, f"{path}: {name}") if name == "base_url" else value


def _price(given: object, where: str) -> Price | None:
    """Of `2.5/10`, `2.5,10` or a list: US$ per million input and output tokens. Raises
    UsageError."""
    if given is None or given == "":
        return None
    parts = given
    if isinstance(given, str):
        with suppress(ValueError):
            parts = [float(part) for part in given.replace("/", ",").split(",")]
    if isinstance(parts, list | tuple) and len(parts) == 2 and all(map(_is_number, parts)):
        into, out = map(float, parts)
        if into >= 0 and out >= 0:
            return into, out
    wanted = 'US$ per million input and output tokens, as "2.5/10"'
    raise _error(f"{where}: {given!r} is not a price; give {wanted}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _url(url: str | None, where: str) -> str | None:
    if not url:
        return None
    with suppress(ValueError):
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname:
            remember_url(url)
            return url.rstrip("/")
    raise _error(f"{where}: {url!r} is not a URL; write it as http://localhost:8000/v1")


def _error(text: str) -> UsageError:
    return UsageError(one_line(scrub(text)))


LONGEST_WAIT_S = 30.0
"""Between two tries. If a server asks for a longer wait, keet gives up."""
_SHORTEST_S = 0.01
_HOSTED_SHARE = 0.25
"""Assumed average duration of a call of a hosted model, as a share of its timeout. Recorded calls
took 19 s (median) and at most 66 s; a quarter of the timeout is 60 s."""
_FEWEST_TIMEOUTS = 4
"""The limit is at least this many timeouts, because a few calls may be slow."""


def shared_limit(spec: ModelSpec, calls: int) -> TimeLimit:
    """One limit for all calls of a command. A model on the user's own machine may need the whole
    timeout for every answer."""
    timeouts = calls if spec.base_url else max(_FEWEST_TIMEOUTS, calls * _HOSTED_SHARE)
    return TimeLimit(spec.time_limit_s or timeouts * spec.timeout_s)


class TimeLimit:
    """Counts only the time spent waiting for the model: keet's analysis, the compiler and the start
    of the client have their own limits and do not depend on the server."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._used = 0.0

    @property
    def left(self) -> float:
        """Seconds; 0 if too short for a request."""
        left = self.seconds - self._used
        return left if left > _SHORTEST_S else 0.0

    @contextmanager
    def counted(self) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self._used += time.monotonic() - began


# --- one run of a command


class ModelLimits(NamedTuple):
    """For one kernel, question or insight."""

    calls: int = 4
    input_tokens: int = 14_000
    rounds: int = 1
    """Rounds in which the model may call tools."""
    output_tokens: int = 2_500
    """Of one reply."""


class ModelOptions(NamedTuple):
    """The model options of `explain`, `ask` and `insights`."""

    spec: ModelSpec
    limits: ModelLimits = ModelLimits()
    redact: Redaction | None = None
    transcript: Path | None = None
    """None: a file in the cache folder, named by report and time."""
    replay: Path | None = None
    """A transcript to take the replies from; no model is asked."""
    cache: bool = True
    launches: int = MOST_LAUNCHES
    compile: bool = True
    """Whether edits are compiled if a compiler is found."""
    include: tuple[str, ...] = ()
    """Folders with headers that the report does not contain."""
    time_limit: TimeLimit | None = None
    """One limit for the whole command if it explains several reports; None: one per report."""

    def limit(self, parts: int | None = None) -> TimeLimit:
        """`parts`: number of launches or insights to ask about; None: `launches`."""
        if self.time_limit is not None:
            return self.time_limit
        return shared_limit(self.spec, (parts or self.launches) * self.limits.calls)
