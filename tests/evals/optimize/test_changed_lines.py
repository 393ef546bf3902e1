"""ChangedLines against the sources of the samples: what slow keeps, what fast changes, what neither tells."""

from __future__ import annotations

import pytest

from evals.optimize.changed_lines import changed_lines, is_wrong_place
from evals.optimize.problems import known_samples
from tests.rows import each_row

SAMPLES = known_samples()
MENDED_BEFORE_THE_LINES = {"decay_ratios", "rate_table"}
PLANTED = sorted(name for name, sample in SAMPLES.items() if sample.truth.cause)


def source(name: str, variant: str = "slow") -> str:
    return SAMPLES[name].source(variant).read_text()


def tampered(name: str, before: str, after: str) -> str:
    text = source(name)
    assert before in text
    return text.replace(before, after)


@each_row("name", sorted(set(PLANTED) - MENDED_BEFORE_THE_LINES))
def test_slow_keeps_its_cause_and_fast_does_not(name: str) -> None:
    assert changed_lines(SAMPLES[name], source(name)).kept_cause is True
    assert changed_lines(SAMPLES[name], source(name, "fast")).kept_cause is False


@pytest.mark.parametrize("name", sorted(MENDED_BEFORE_THE_LINES))
def test_lines_that_the_fix_keeps_are_not_informative(name: str) -> None:
    found = changed_lines(SAMPLES[name], source(name))
    assert found.kept_cause is None
    assert "no line tells" in found.told


@each_row("name", ["field_axpy", "pair_reduce", "series_eval"])
def test_healthy_samples_have_no_cause_to_keep(name: str) -> None:
    assert changed_lines(SAMPLES[name], source(name))[:2] == (None, None)


@each_row("name", sorted(SAMPLES))
def test_an_unchanged_program_touches_no_decoy(name: str) -> None:
    assert not changed_lines(SAMPLES[name], source(name)).touched_decoy


def test_spaces_line_breaks_and_comments_do_not_matter() -> None:
    spaced = tampered("matrix_flip", "out[x * n + y] =", "out[x*n\n + y] /* here */ = // and\n")
    assert changed_lines(SAMPLES["matrix_flip"], spaced).kept_cause is True


def test_a_line_that_became_a_comment_is_not_kept() -> None:
    gone = tampered(
        "matrix_flip", "out[x * n + y] =", "// out[x * n + y] = in[y * n + x];\nout[y] ="
    )
    assert changed_lines(SAMPLES["matrix_flip"], gone).kept_cause is False


def test_a_name_that_ends_alike_is_another_name() -> None:
    other = tampered("matrix_flip", "out[x * n + y] = in", "checkout[x * n + y] = in")
    assert changed_lines(SAMPLES["matrix_flip"], other).kept_cause is False


def test_removing_one_of_several_barriers_is_a_change() -> None:
    text = source("scan_rows")
    fewer = text.replace("__syncthreads();", "", 1)
    assert "__syncthreads();" in fewer
    assert changed_lines(SAMPLES["scan_rows"], fewer).kept_cause is False


def test_not_calling_a_header_function_removes_its_cause() -> None:
    sample = SAMPLES["gas_state"]
    assert changed_lines(sample, source("gas_state")).kept_cause is True
    without = tampered("gas_state", '#include "state_math.h"', '#include "mine.h"')
    assert changed_lines(sample, without).kept_cause is False
    commented = tampered("gas_state", '#include "state_math.h"', '// #include "state_math.h"')
    assert changed_lines(sample, commented).kept_cause is False
    own = tampered("gas_state", "state::stagnation_ratio(", "own_ratio(")
    assert "state_math.h:34" in changed_lines(sample, own).told


def test_a_changed_decoy_is_named(wording) -> None:
    changed = tampered(
        "key_count", "const uint4 keys = key[i];", "const uint4 keys = __ldcs(&key[i]);"
    )
    found = changed_lines(SAMPLES["key_count"], changed)
    assert found[:2] == (True, True)
    wording(found.told)


def test_words_for_a_change_at_the_cause(wording) -> None:
    changed = tampered("key_count", "atomicAdd(&count[keys.x], 1u);", "add(count, keys.x);")
    told = changed_lines(SAMPLES["key_count"], changed).told
    wording(told)


def test_an_empty_program_keeps_nothing() -> None:
    assert changed_lines(SAMPLES["matrix_flip"], "").kept_cause is False


@each_row(
    ("speedup", "kept", "wrong"),
    [
        (1.0, True, True),
        (1.0999, True, True),
        (1.1, True, False),
        (0.5, True, True),
        (1.0, False, False),
        (None, True, None),
        (1.0, None, None),
    ],
)
def test_the_wrong_place_is_correct_without_gain_and_with_the_cause(
    speedup: float | None, kept: bool | None, wrong: bool | None
) -> None:
    assert is_wrong_place(speedup, kept_cause=kept) is wrong


def test_a_closing_brace_with_costs_is_not_a_cause_line() -> None:
    """gas_state names the closing brace of its kernel, as the report books called routines there."""
    text = source("gas_state")
    assert any(cause.code == "}" for cause in SAMPLES["gas_state"].truth.cause)
    assert changed_lines(SAMPLES["gas_state"], text.rstrip().removesuffix("}")).kept_cause is True


def test_slashes_in_a_string_are_not_a_comment() -> None:
    """What stands behind it on its line is still there."""
    name = "matrix_flip"
    (cause,) = (cause for cause in SAMPLES[name].truth.cause if cause.variant == "slow")
    behind = tampered(name, cause.code, f'const char* where = "http://here"; {cause.code}')
    assert changed_lines(SAMPLES[name], behind).kept_cause is True
