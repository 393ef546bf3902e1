"""Reduces the JSON of a reply to the parts that keet reads.

Clients make objects of everything in a reply: a million empty choices become gigabytes, and a token
count that is a string fails the whole answer. Both are handled here, on plain JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

MOST_CALLS = 16
"""Tool calls per reply. keet runs 5 of them and tells the model which it did not run."""
MOST_TOKENS = 10**8
"""Larger token counts are ignored: no context is that long."""
_MOST_PARTS = 64
"""Items of a list of parts in OpenAI's Responses API."""
_READ = ("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens")
"""Token counts that keet reads, under both sets of names that OpenAI uses."""
_LISTS = {"choices": 1, "data": 1, "output": _MOST_PARTS}


class UnusableReply(ValueError):
    """The server sent something that can't be decoded."""


def reduced(body: bytes) -> bytes:
    """A JSON object is reduced to its first choice, valid counts and short lists. Anything else is
    left as it is: the client reports what is wrong with it. Raises UnusableReply."""
    try:
        document = json.loads(body)
    except RecursionError:
        raise UnusableReply("its JSON is nested too deeply") from None
    except ValueError:
        return body
    if not isinstance(document, dict):
        return body
    for name, most in _LISTS.items():
        if isinstance(document.get(name), list):
            document[name] = document[name][:most]
    if "usage" in document:
        document["usage"] = _counts(document["usage"])
    if isinstance(document.get("choices"), list):
        for choice in document["choices"]:
            _reduce_choice(choice)
    return json.dumps(document).encode()


def _reduce_choice(choice: object) -> None:
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict):
        return
    for name, most in (("tool_calls", MOST_CALLS), ("content", _MOST_PARTS)):
        if isinstance(message.get(name), list):
            message[name] = message[name][:most]


def _counts(usage: object) -> dict[str, Any] | None:
    """The valid counts; None if one that keet reads is not valid: keet estimates then."""
    if not isinstance(usage, dict) or not all(is_count(usage.get(name, 0)) for name in _READ):
        return None
    counts = {name: usage[name] for name in usage if name.endswith("_tokens")}
    details = {name: _details(usage[name]) for name in usage if name.endswith("_tokens_details")}
    return {**_details(counts), **details}


def _details(found: object) -> Mapping[str, int]:
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if is_count(value)}


def is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS
