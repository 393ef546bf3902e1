"""One conversation within limits of calls and tokens, with redaction in both directions."""

from __future__ import annotations

import re

import pytest

from keet.agent.model.messages import ChatMessage, ModelFault
from keet.agent.options import ModelLimits
from keet.agent.privacy.redaction import Redaction
from keet.agent.session import estimate
from tests.unit.agent.conversations import (
    READING,
    SUMMARY,
    Said,
    Talk,
    cause,
    change,
    conclusion,
    corrections,
    edit,
    talk,
)

FREE = "The LSU pipe runs at 97 % of its peak."
SOURCE_LINE = "43|             for (int j = 0; j < kPerThread; ++j) from_item[j] = item_tile"


def test_the_steps_are_one_conversation() -> None:
    """The evidence follows the reading, with the source still there, and sent once."""
    done = talk(READING, conclusion())
    first, second = done.chat.requests
    assert [m.role for m in first.messages] == ["system", "user"]
    assert list(second.messages[:2]) == list(first.messages)
    assert [m.role for m in second.messages] == ["system", "user", "assistant", "user"]
    assert "Scores queries against items." in second.messages[2].text
    sent = "\n".join(message.text for message in second.messages)
    assert sent.count(SOURCE_LINE) == 1
    assert "{bank_conflict_share}" not in first.messages[1].text  # no measurement is known yet
    assert "{bank_conflict_share}" in second.messages[3].text


def test_corrections_are_asked_for_by_themselves() -> None:
    """A short request: neither source nor evidence are paid for again."""
    done = talk(READING, conclusion(summary=f"{SUMMARY} {FREE}"), corrections("L1 waits."))
    third = done.chat.requests[2]
    assert [m.role for m in third.messages] == ["system", "user"]
    assert SOURCE_LINE not in third.messages[1].text
    assert estimate(third) < estimate(done.chat.requests[1]) / 3


def test_each_step_sends_its_schema() -> None:
    done = talk(READING, Said((("why_waiting", {}),)), conclusion())
    reads, calls, last = done.chat.requests
    assert reads.schema is not None
    assert "hypotheses" in reads.schema["properties"]
    assert calls.schema is None  # tools may be called
    assert last.schema is None or "causes" in last.schema["properties"]


@pytest.mark.parametrize("said", ["", "no json", "[]", '{"summary": ', "{}"])
@pytest.mark.slow
def test_an_unreadable_answer_is_requested_once_more(said: str) -> None:
    done = talk(READING, said, conclusion())
    assert done.found.fault is None
    assert "That was not the JSON object" in done.chat.requests[2].messages[-1].text
    assert any("asking again" in line for line in done.told)
    twice = talk(READING, said, said, conclusion())
    assert twice.found.fault is not None
    assert twice.found.fault.kind == "answer"
    assert len(twice.chat.requests) == 3


@pytest.mark.slow
def test_no_more_calls_than_allowed() -> None:
    calls = Said((("why_waiting", {}),))
    for most in (1, 2, 3):
        done = talk(READING, calls, calls, conclusion(), limits=ModelLimits(most, 90_000))
        assert len(done.chat.requests) <= most
    done = talk(
        "no", READING, calls, calls, "no", conclusion(summary=FREE), limits=ModelLimits(6, 90_000)
    )
    assert len(done.chat.requests) == 6
    assert done.model_explanation.unchecked


def test_the_token_budget_is_not_exceeded() -> None:
    whole = talk(READING, conclusion())
    sizes = [estimate(request) for request in whole.chat.requests]
    for most in (500, sizes[0] + 500, sum(sizes) - 500):
        done = talk(READING, conclusion(), limits=ModelLimits(6, most))
        assert sum(estimate(request) for request in done.chat.requests) <= most
        assert done.found.fault is not None
        assert done.found.fault.kind == "budget"
        assert "raise --token-budget" in str(done.found.fault)


def test_tools_are_offered_within_the_token_budget() -> None:
    def rounds(tokens: int) -> bool:
        done = talk(READING, conclusion(), limits=ModelLimits(6, tokens))
        return bool(done.chat.requests[1].tools)

    assert rounds(40_000)
    sizes = [estimate(request) for request in talk(READING, conclusion()).chat.requests]
    assert not rounds(sum(sizes) + 300)


def test_a_typical_run_stays_within_its_targets() -> None:
    """Issue 19: at most 10,000 tokens of input and 4 calls in the median."""
    done = talk(READING, conclusion(causes=[cause()], edits=[edit(change())]))
    assert len(done.chat.requests) == 2
    assert sum(estimate(request) for request in done.chat.requests) < 10_000


def test_an_interrupt_is_reported() -> None:
    done = talk(READING, KeyboardInterrupt())
    assert done.found.fault is not None
    assert done.found.fault.kind == "interrupted"
    assert done.found.each.model_explanation is not None


# --- redaction


def sent(done: Talk) -> str:
    """What stems from the report, and what the model said; keet's own texts name files too."""
    messages = [m for request in done.chat.requests for m in request.messages]
    text = "\n".join(message.text for message in messages)
    fenced = re.findall(r"\[data [0-9a-f]+: .*?\[end of data", text, re.DOTALL)
    return "\n".join([*fenced, *(m.text for m in messages if m.role == "assistant")])


def test_names_inside_evidence_ids_are_replaced_and_restored() -> None:
    """`samples_share@slow.cu:43` leaves with `file_N` in it, and is found again."""
    first = talk(READING, conclusion(), redact="names")
    text = sent(first)
    assert "slow.cu" not in text
    assert "score_tiles" not in text
    (name,) = {n for n in text.split("{") if n.startswith("samples_share@file_") and ":43}" in n}
    written = name.partition("}")[0]
    said = conclusion(
        summary=f"Samples: {{{written}}}.",
        causes=[cause(because=[f"{written} > 1"], file=written[14:].partition(":")[0], line=43)],
    )
    done = talk(READING, said, redact="names")
    assert done.model_explanation.unchecked == ()
    assert done.model_explanation.summary.ids == ("samples_share@slow.cu:43#0",)
    assert "slow.cu:43" in str(done.model_explanation.summary)
    (found,) = done.model_explanation.causes
    assert found.where == "slow.cu:43"
    assert found.problem is None


def test_a_file_name_in_an_edit_is_restored() -> None:
    place = next(
        word for word in sent(talk(READING, conclusion(), redact="names")).split()
        if word.startswith("file_") and word.endswith(":43")
    ).partition(":")[0]  # fmt: skip
    changed = change() | {"file": place}
    (found,) = talk(
        READING, conclusion(edits=[edit(changed)]), redact="names"
    ).model_explanation.edits
    assert found.places == ("slow.cu:43",)


@pytest.mark.parametrize("redact", ["source", "all"])
def test_redacted_source_is_not_sent(redact: Redaction) -> None:
    """No step of reading; no tools of code; no constants; no compiler."""
    done = talk(
        conclusion(edits=[edit(change())]), {"corrections": []}, redact=redact, compiles=True
    )
    text = sent(done)
    assert "item_tile" not in text
    assert "kPerThread" not in text
    assert "The source is not at hand." in done.chat.requests[0].messages[1].text
    offered = {tool.name for request in done.chat.requests for tool in request.tools}
    assert not offered & {"read_source", "read_sass", "compile_edit"}
    assert done.model_explanation.hypotheses == ()


def test_the_models_words_are_redacted_when_sent_again() -> None:
    done = talk(READING, ModelFault("server", "gone"), redact="names")
    again = done.chat.requests[1].messages[2]
    assert again == ChatMessage("assistant", again.text)
    assert "slow.cu" not in again.text
