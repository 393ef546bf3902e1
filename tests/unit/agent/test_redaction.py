"""Names are replaced by placeholders when sent, and restored in replies."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from pathlib import Path

import pytest

from keet.agent import prompts
from keet.agent.redaction import Redactor
from keet.explanation.analyst import explain
from keet.explanation.explanation_types import Explanation
from keet.ingest import read_profile

SAMPLES = Path(__file__).parents[3] / "kernels_samples"


@pytest.fixture(scope="module")
def explanation() -> Explanation:
    profile = read_profile(SAMPLES / "column_physics" / "slow.ncu-repz")
    return explain(profile, profile.launches, 5)


def restored(redactor: Redactor, text: str) -> str:
    """What is sent; it can be undone."""
    sent = redactor.out(text)
    assert redactor.back(sent) == text
    return sent


def test_names_are_replaced_and_restored(explanation: Explanation) -> None:
    """Without redaction nothing changes; names inside other words are kept."""
    redactor = Redactor([explanation], "names")
    text = "step_columns at slow.cu:96, in /tmp/keet-samples/column_physics/slow.cu"
    assert restored(Redactor([explanation], None), text) == text
    sent = restored(redactor, text)
    assert not any(name in sent for name in ("step_columns", "slow.cu"))
    assert ":96" in sent
    others = "step_columns_2 and my_slow.cuh"
    assert redactor.out(others) == others
    ids = "{samples_share@slow.cu:96} of {pair_0_share@slow.cu:9..slow.cu:21#0-1}, {a@slow.cu:7..gone}"
    assert "slow.cu" not in restored(redactor, ids)


def test_names_in_the_models_words_are_hidden_everywhere(explanation: Explanation) -> None:
    """A model that echoes a mark of data would else have its other words sent as they are."""
    redactor = Redactor([explanation], "names")
    echo = f"step_columns:\n{prompts.fenced('the GPU', 'step_columns')}\nslow.cu and step_columns"
    assert "step_columns" in redactor.out(echo)
    hidden = redactor.hide(echo)
    assert "step_columns" not in hidden
    assert "slow.cu" not in hidden
    assert redactor.back(hidden) == echo


def with_source(explanation: Explanation, path: str, text: str) -> Redactor:
    each = explanation.launches[0]
    launch = copy(each.launch)
    launch.source_files = {path: text}
    return Redactor([explanation._replace(launches=(replace(each, launch=launch),))], "names")


def test_names_of_headers_are_redacted(explanation: Explanation) -> None:
    source = 'int a;\n  # include "secret/plan_b.cuh"\n#include <vector>\n'
    redactor = with_source(explanation, "/src/slow.cu", source)
    sent = restored(redactor, "plan_b.cuh, that is secret/plan_b.cuh, needs <vector>")
    assert not any(name in sent for name in ("plan_b", "secret"))
    assert "<vector>" in sent


def test_a_file_whose_name_is_escaped_in_ids(explanation: Explanation) -> None:
    """In ids white space and quotes are underscores: that form is a name, too."""
    redactor = with_source(explanation, "/src/my secret\tfile.cu", "int a;")
    assert "secret" not in restored(redactor, "{samples_share@my_secret_file.cu:7}")


def test_redact_source_removes_quoted_code(explanation: Explanation, wording) -> None:
    redactor = Redactor([explanation], "source")
    assert redactor.hides_source
    wording(redactor.out("Keep it at slow.cu:96 (`drops[k]`, `a[b]`): so."))
