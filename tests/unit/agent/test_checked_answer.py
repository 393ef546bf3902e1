"""Answers are checked: references printed, faults sent back once, no sentence lost."""

from __future__ import annotations

import pytest

from keet.agent.model.messages import ModelFault
from keet.agent.options import ModelLimits
from tests.unit.agent.conversations import (
    READING,
    SUMMARY,
    asked,
    cause,
    conclusion,
    corrections,
    talk,
)

FREE = "The LSU pipe runs at 97 % of its peak."


def test_references_are_printed_by_keet() -> None:
    said = talk(READING, conclusion()).model_explanation
    assert str(said.summary) == (
        "Shared memory is the limit: 59.6% (shared wavefronts lost to bank conflicts) is lost to "
        "conflicts."
    )
    assert said.summary.ids == ("bank_conflict_share#0",)
    assert said.unchecked == ()
    assert said.sent_back == 0


def test_a_number_outside_braces_is_sent_back_with_the_reason() -> None:
    again = corrections("The LSU pipe runs at {inst_pipe_lsu_pct}.")
    done = talk(READING, conclusion(summary=f"{SUMMARY} {FREE}"), again)
    assert len(done.chat.requests) == 3
    prompt = done.chat.requests[2].messages[-1].text
    assert f"1. {FREE}" in prompt
    assert "a number outside of braces; write it as {name}" in prompt
    assert "{inst_pipe_lsu_pct}" in prompt  # names to choose from
    assert "The LSU pipe runs at 36.0%" in str(done.model_explanation.summary)
    assert (done.model_explanation.sent_back, done.model_explanation.unchecked) == (1, ())


def test_what_is_not_corrected_is_marked_as_unchecked() -> None:
    """Sent back once, not twice: a lost true sentence is worse than a marked one."""
    worse = "The LSU pipe runs at 98 % of its peak."
    done = talk(READING, conclusion(summary=f"{FREE} {SUMMARY}"), corrections(worse))
    assert len(done.chat.requests) == 3
    text = str(done.model_explanation.summary)
    assert text.startswith(f"[unchecked] {worse} Shared memory")
    assert text.count("[unchecked]") == 1
    (unchecked,) = done.model_explanation.unchecked
    assert unchecked.where == "summary"
    assert unchecked.text == worse


@pytest.mark.parametrize(
    "reply", ["no", "{}", {"corrections": []}, ModelFault("timeout", "it took too long"), KeyboardInterrupt()]
)  # fmt: skip
def test_without_corrections_the_sentence_stays_marked(reply: object) -> None:
    done = talk(READING, conclusion(summary=f"{SUMMARY} {FREE}"), reply, reply)
    kind = "interrupted" if isinstance(reply, KeyboardInterrupt) else None
    assert (done.found.fault.kind if done.found.fault else None) == kind
    assert str(done.model_explanation.summary).endswith(f"[unchecked] {FREE}")


def test_an_empty_correction_keeps_a_false_fact() -> None:
    said = conclusion(causes=[cause(because=["bank_conflict_share > 1", "duration > 5 s"])])
    done = talk(READING, said, {"corrections": [{"number": 1}]})
    assert "is false" in (done.model_explanation.causes[0].problem or "")


def test_a_long_literal_in_an_edit_takes_no_time() -> None:
    edit = {
        "what": "Mask it.",
        "changes": [{"file": "slow.cu", "old": "x", "new": "0x" + "f" * 300}],
    }
    done = talk(READING, conclusion(edits=[edit]), {"corrections": []})
    assert done.found.fault is None
    assert len(done.model_explanation.edits) == 1


def test_corrections_are_taken_by_number() -> None:
    """In any order; numbers that were not asked for are ignored."""
    wrong = "DRAM is at 99 %. {l2_busy} is high. L1 waits. FMA is at 12 %."
    again = {
        "corrections": [
            {"number": 9, "text": "Nobody asked."},
            {"number": "2", "text": "L2 is at {l2_throughput_pct}."},
            {"number": 1, "text": "FMA is idle. So is ALU."},
            {"number": None, "text": "No number."},
        ]
    }
    done = talk(READING, conclusion(summary=wrong), again)
    assert [*done.model_explanation.summary.sentences] == [
        "DRAM is at 99 %.",
        "L2 is at 7.8% (L2 cache busy).",
        "L1 waits.",
        "FMA is idle.",
        "So is ALU.",
    ]
    assert [*done.model_explanation.summary.problems] == ["DRAM is at 99 %."]


def test_an_empty_correction_removes_the_sentence() -> None:
    """The prompt offers it; a correction without a text is none."""
    wrong = conclusion(summary=f"{SUMMARY} {FREE}")
    assert talk(READING, wrong, corrections("")).model_explanation.unchecked == ()
    kept = talk(READING, wrong, {"corrections": [{"number": 1}]}).model_explanation
    assert [each.text for each in kept.unchecked] == [FREE]


def test_a_false_fact_is_sent_back() -> None:
    wrong = conclusion(causes=[cause(because=["waves_per_sm < 1"])])
    prompt_of = talk(READING, wrong, corrections("waves_per_sm > 1; bank_conflicts_load"))
    prompt = prompt_of.chat.requests[2].messages[-1].text
    assert "`because` of causes[0]" in prompt
    assert "waves_per_sm < 1 is false: Waves Per SM 3.88 < 1" in prompt
    (found,) = prompt_of.model_explanation.causes
    assert [fact.written.strip("{}") for fact in found.because] == [
        "waves_per_sm > 1",
        "bank_conflicts_load",
    ]
    assert found.problem is None


def test_a_fact_that_stays_false_leaves_an_opinion() -> None:
    wrong = conclusion(causes=[cause(because=["waves_per_sm < 1", "bank_conflicts_load > 0"])])
    (found,) = talk(READING, wrong, corrections("waves_per_sm < 2")).model_explanation.causes
    assert found.problem is not None
    assert "waves_per_sm < 2 is false" in found.problem
    assert found.claim is None


def test_verdicts_on_hypotheses_need_reasons() -> None:
    judged = [
        {"hypothesis": 1, "verdict": "confirmed", "reason": "{bank_conflict_share} is lost."},
        {"hypothesis": 1, "verdict": "refuted", "reason": "The first verdict counts."},
        {"hypothesis": 2, "verdict": "refuted", "reason": ""},
        {"hypothesis": 7, "verdict": "refuted", "reason": "There is no such hypothesis."},
    ]
    one, two = talk(READING, conclusion(judged=judged)).model_explanation.hypotheses
    assert (one.verdict, one.finding) == ("confirmed", "shared_bank_conflict")
    assert str(one.reason).startswith("59.6% ")
    assert two.verdict == "inconclusive"  # a verdict without a reason is an opinion


def test_a_verdict_with_an_unchecked_reason_is_inconclusive() -> None:
    judged = [{"hypothesis": 1, "verdict": "confirmed", "reason": FREE}]
    one, _ = talk(
        READING, conclusion(judged=judged), {"corrections": []}
    ).model_explanation.hypotheses
    assert one.verdict == "inconclusive"
    assert str(one.reason) == f"[unchecked] {FREE}"


def test_hypotheses_are_marked_but_not_sent_back() -> None:
    """They were made before any measurement, so that there is nothing to refer to."""
    guess = {"text": "It will lose 40 % to conflicts.", "finding": "shared_bank_conflict"}
    done = talk(READING | {"hypotheses": [guess]}, conclusion())
    assert len(done.chat.requests) == 2
    (found,) = done.model_explanation.hypotheses
    assert str(found.text) == "[unchecked] It will lose 40 % to conflicts."


def test_a_cause_must_name_a_finding() -> None:
    causes = [cause("cosmic_rays"), cause(text=""), cause("Shared bank-conflict")]
    done = talk(READING, conclusion(causes=causes))
    assert [each.finding for each in done.model_explanation.causes] == ["shared_bank_conflict"]


def test_an_empty_answer_says_nothing() -> None:
    said = talk(
        {"purpose": "", "hypotheses": []},
        {"summary": "", "causes": [], "edits": [], "judged": []},
    ).model_explanation
    assert not said.summary
    assert not any((said.causes, said.edits, said.hypotheses, said.objections))


def test_the_reading_is_kept_if_the_inspection_fails() -> None:
    done = talk(READING, ModelFault("server", "it is gone"))
    assert str(done.found.fault) == "it is gone"
    assert str(done.model_explanation.purpose) == "Scores queries against items."
    assert [each.verdict for each in done.model_explanation.hypotheses] == ["inconclusive"] * 2
    assert talk(ModelFault("server", "it is gone")).found.each.model_explanation is None


def test_a_question_is_corrected_the_same_way() -> None:
    said = {"answer": "Conflicts: {bank_conflict_share}. DRAM is at 97 %."}
    again = corrections("DRAM is at {dram_throughput_pct}.")
    text = asked(said, again, samples=["score_tiles/slow"])
    assert "DRAM is at 1.3%" in str(text)
    assert not text.problems
    kept = asked(said, {"corrections": []}, samples=["score_tiles/slow"])
    assert str(kept).endswith("[unchecked] DRAM is at 97 %.")


def test_a_repair_beyond_the_budget_leaves_sentences_unchecked() -> None:
    wrong = conclusion(summary=f"{SUMMARY} {FREE}")
    done = talk(
        READING, wrong, corrections("L1 waits."), limits=ModelLimits(calls=2, input_tokens=40_000)
    )
    assert len(done.chat.requests) == 2
    assert str(done.model_explanation.summary).endswith(f"[unchecked] {FREE}")
