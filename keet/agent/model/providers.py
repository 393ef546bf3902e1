"""Which langchain client serves a model: hosted providers, and OpenAI-compatible servers."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any

from keet.agent.model.faults import AskedModel, fault_of, key_variable, named_fault
from keet.agent.model.langchain_chat import OWN_SERVER, LangchainChat, dialect_of
from keet.agent.model.settings import ModelSpec, provider_of
from keet.masking.encoded_keys import key_in
from keet.masking.keys import scrub

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_openai import ChatOpenAI

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


def connect(spec: ModelSpec) -> LangchainChat:
    """The model, asked in this process: without limits of time, memory and size. Raises
    ModelFault."""
    try:
        return _own_server(spec, spec.base_url) if spec.base_url else _hosted(spec)
    except Exception as error:  # noqa: BLE001 - clients raise any type
        fault = fault_of(error, AskedModel(spec))
    raise fault


def announce_tracing() -> str | None:
    """A warning if the environment makes langchain send prompts to other services, otherwise
    None."""
    on = list(filter(_is_on, _TRACING))
    told = []
    if on:
        told.append(f"{' and '.join(on)}: langchain sends prompts and replies to LangSmith, too")
    if _is_on("LANGSMITH_GATEWAY"):
        on.append("LANGSMITH_GATEWAY")
        told.append("LANGSMITH_GATEWAY: langchain sends prompts through LangSmith's gateway")
    return f"{'; '.join(told)}; to prevent that: unset {' '.join(on)}" if told else None


def _is_on(variable: str) -> bool:
    value = os.environ.get(variable, "").strip().lower()
    return value not in ("", "0", "false", "no", "off")


def _own_server(spec: ModelSpec, base_url: str) -> LangchainChat:
    from langchain_openai import ChatOpenAI
    from openai import Timeout
    from pydantic import SecretStr

    model = ChatOpenAI(
        model=spec.name.removeprefix("openai:"),
        base_url=base_url,
        api_key=SecretStr(os.environ.get("OPENAI_API_KEY") or _NO_KEY),
        timeout=Timeout(spec.timeout_s, connect=min(spec.timeout_s, _CONNECT_S)),
        max_retries=0,  # LangchainChat retries, the same for every provider
        use_responses_api=False,
    )
    if not spec.name:
        model.model_name = _first_model(model, AskedModel(spec))
        spec = spec._replace(name=model.model_name)
    return LangchainChat(model, spec, OWN_SERVER)


def _first_model(model: ChatOpenAI, asked: AskedModel) -> str:
    """A server may list anything as a model name, also a key."""
    listed = model.root_client.models.list(timeout=min(asked.spec.timeout_s, _CONNECT_S)).data
    name = str(getattr(listed[0], "id", None) or "") if listed else ""
    fits = bool(name.strip()) and len(name) <= _LONGEST_NAME and name.isprintable()
    if not fits or scrub(name) != name or key_in(name):
        line = f"{asked.spec.base_url} lists no model with a usable name; name one with --model"
        raise asked.fault("unknown_model", line)
    return name


def _hosted(spec: ModelSpec) -> LangchainChat:
    from langchain.chat_models import init_chat_model

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            limits: dict[str, Any] = {"timeout": spec.timeout_s, "max_retries": 0}
            model: BaseChatModel = init_chat_model(spec.name, **limits)
        except (TypeError, ValueError):  # the provider does not support them
            model = init_chat_model(spec.name)
    variable = key_variable(spec.name)
    also = "GEMINI_API_KEY" if variable == "GOOGLE_API_KEY" else variable  # it has two names
    has_key = os.environ.get(variable) or os.environ.get(also) or _is_on("LANGSMITH_GATEWAY")
    if provider_of(spec.name) in _KEYED and not has_key:
        raise named_fault("no_key", AskedModel(spec))
    return LangchainChat(model, spec, dialect_of(model))
