"""Which langchain client serves a model: hosted providers, and OpenAI-compatible servers."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any

from keet.agent.model.bounded_client import bounded_client
from keet.agent.model.faults import AskedModel, fault_of, key_variable, no_key_line
from keet.agent.model.langchain_chat import (
    HOSTED,
    HOSTED_UNLIMITED,
    OPENAI,
    OPENAI_RESPONSES,
    OWN_SERVER,
    Dialect,
    LangchainChat,
)
from keet.agent.model.messages import ModelFault
from keet.agent.model.settings import ModelSpec, provider_of
from keet.agent.secrets import key_in, scrub
from keet.errors import one_line

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

_CONNECT_S = 15.0
"""Limit for connecting. The answer may take longer."""
_NO_KEY = "none"
"""Own servers need no key, but the client requires a text."""
_KEYED = ("anthropic", "deepseek", "google_genai", "groq", "mistralai", "openai", "xai")
"""Providers that need only a key, from one variable."""
_LONGEST_NAME = 200
"""Characters. Local servers name a model by its file path."""
_TRACING = (
    "LANGSMITH_TRACING_V2",
    "LANGCHAIN_TRACING_V2",
    "LANGSMITH_TRACING",
    "LANGCHAIN_TRACING",
)
_OFF = ("", "0", "false", "no", "off")


def connect(spec: ModelSpec) -> LangchainChat:
    """The model, asked in this process: without time and memory limits. Raises ModelFault."""
    try:
        return _own_server(spec, spec.base_url) if spec.base_url else _hosted(spec)
    except Exception as error:  # noqa: BLE001 - clients raise any type
        fault = fault_of(error, AskedModel(spec))
    raise fault


def announce_tracing() -> str | None:
    """A warning if the environment makes langchain send prompts to other services, otherwise
    None."""
    on = [name for name in _TRACING if os.environ.get(name, "").strip().lower() not in _OFF]
    gateway = os.environ.get("LANGSMITH_GATEWAY", "").strip().lower() not in _OFF
    told = []
    if on:
        told.append(f"{' and '.join(on)}: langchain sends prompts and replies to LangSmith, too")
    if gateway:
        told.append("LANGSMITH_GATEWAY: langchain sends prompts through LangSmith's gateway")
    names = " ".join([*on, *["LANGSMITH_GATEWAY"] * gateway])
    return f"{'; '.join(told)}; to prevent that: unset {names}" if told else None


def _own_server(spec: ModelSpec, base_url: str) -> LangchainChat:
    from langchain_openai import ChatOpenAI
    from openai import Timeout
    from pydantic import SecretStr

    key = os.environ.get("OPENAI_API_KEY") or _NO_KEY
    proxy = os.environ.get("OPENAI_PROXY")
    name = spec.name.removeprefix("openai:") or _first_model(spec, base_url, key)
    model = ChatOpenAI(
        model=name,
        base_url=base_url,
        api_key=SecretStr(key),
        timeout=Timeout(spec.timeout_s, connect=min(spec.timeout_s, _CONNECT_S)),
        max_retries=0,  # LangchainChat retries, the same for every provider
        http_client=bounded_client(spec.timeout_s, base_url, proxy),
        openai_proxy=None,  # the client has it; langchain accepts only one of them
        use_responses_api=False,
    )
    return LangchainChat(model, spec._replace(name=spec.name or name), OWN_SERVER)


def _first_model(spec: ModelSpec, base_url: str, key: str) -> str:
    timeout = min(spec.timeout_s, _CONNECT_S)
    try:
        listed = _listed(base_url, key, timeout)
    except Exception as error:  # noqa: BLE001 - clients raise any type
        fault = fault_of(error, AskedModel(spec._replace(timeout_s=timeout)))
    else:
        return _printable_name(listed, base_url)
    raise fault


def _listed(base_url: str, key: str, timeout: float) -> list[Any]:
    from openai import OpenAI

    http = bounded_client(timeout, base_url, os.environ.get("OPENAI_PROXY"))
    with OpenAI(
        base_url=base_url, api_key=key, timeout=timeout, max_retries=0, http_client=http
    ) as client:
        return list(client.models.list().data or ())


def _printable_name(listed: list[Any], base_url: str) -> str:
    name = str(getattr(listed[0], "id", None) or "") if listed else ""
    if not _can_be_printed(name):
        line = f"{base_url} lists no model with a usable name; name one with --model"
        raise ModelFault("unknown_model", one_line(scrub(line)))
    return name


def _can_be_printed(name: str) -> bool:
    """A server may list anything as a model name, also a key."""
    fits = bool(name.strip()) and len(name) <= _LONGEST_NAME
    return fits and name.isprintable() and scrub(name) == name and not key_in(name)


def _hosted(spec: ModelSpec) -> LangchainChat:
    model = _init(spec)
    provider, variable = provider_of(spec.name), key_variable(spec.name)
    through_gateway = os.environ.get("LANGSMITH_GATEWAY", "").lower() not in _OFF
    if provider in _KEYED and not through_gateway and not _is_set(variable):
        raise ModelFault("no_key", no_key_line(variable, AskedModel(spec)))
    return LangchainChat(model, spec, _dialect_of(model))


def _is_set(variable: str) -> bool:
    """Google's key has two names."""
    also = {"GOOGLE_API_KEY": "GEMINI_API_KEY"}.get(variable, variable)
    return bool(os.environ.get(variable) or os.environ.get(also))


def _init(spec: ModelSpec) -> BaseChatModel:
    """Sets timeout and retries if the provider supports them. OpenAI-compatible providers get
    keet's client, which limits the size of replies."""
    from langchain.chat_models import init_chat_model
    from langchain_openai.chat_models.base import BaseChatOpenAI

    limits: dict[str, Any] = {"timeout": spec.timeout_s, "max_retries": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model: BaseChatModel = init_chat_model(spec.name, **limits)
        except (TypeError, ValueError):
            return init_chat_model(spec.name)
        if isinstance(model, BaseChatOpenAI):
            http = bounded_client(spec.timeout_s, model.openai_api_base, model.openai_proxy)
            own = {"http_client": http, "openai_proxy": None}  # as above
            model = init_chat_model(spec.name, **limits, **own)
        return model


def _dialect_of(model: BaseChatModel) -> Dialect:
    from langchain_openai.chat_models.base import BaseChatOpenAI

    if not isinstance(model, BaseChatOpenAI):
        return HOSTED if "max_tokens" in type(model).model_fields else HOSTED_UNLIMITED
    # Which of OpenAI's two APIs is used may depend on the tools; langchain knows.
    speaks_responses = getattr(model, "_use_responses_api", lambda _: False)({"tools": [{}]})
    return OPENAI_RESPONSES if speaks_responses else OPENAI
