"""Notes on the account: instructions by purpose and line, stages of L2, bytes needed and moved."""

from __future__ import annotations

import re
from copy import copy
from functools import cache

import pytest

from keet.analysis.limits import FEW
from keet.diagnosis.diagnosis import Diagnosis, diagnose
from keet.explanation.account_notes import account_notes
from keet.ingest import read_profile
from tests.grounded import strays_in
from tests.kept_reports import sample_report
from tests.rows import each_row

NAMES = ("stencil_march", "gas_state", "matrix_flip", "field_axpy", "row_layers", "softmax_rows")


@cache
def diagnosed(sample: str, *, code: bool = True) -> Diagnosis:
    return diagnose(read_profile(sample_report(sample)).launches[0], reads_code=code)


def notes_of(sample: str, *, code: bool = True) -> dict[str, str]:
    diagnosis = diagnosed(sample, code=code)
    return {note.id: note.text for note in account_notes(diagnosis.view, diagnosis.account)}


@pytest.mark.slow
@each_row("code", [True, False])
@each_row("sample", NAMES)
def test_every_number_has_evidence(sample: str, code: bool) -> None:
    diagnosis = diagnosed(sample, code=code)
    view = diagnosis.view
    for note in account_notes(view, diagnosis.account):
        assert any(map(str.isdigit, note.text))
        assert not strays_in(note.text, note.evidence, view.launch)


def test_instructions_by_purpose_and_line() -> None:
    """Counted here by hand: the purposes of the executed instructions, and their lines."""
    told = notes_of("stencil_march")["instruction_mix"]
    view = diagnosed("stencil_march").view
    counts = view.code.program.counts
    address = [n for n, purpose in enumerate(view.code.purposes) if purpose.value == "address"]
    share = 100 * sum(counts[n] for n in address) / sum(counts)
    assert told.startswith(f"Executed instructions: {share:.0f}% addresses and indices (")
    here = sum(counts[n] for n in address if (at := view.code.location(n)) and at.line == 19)
    assert f"({100 * here / sum(counts):.0f}% at slow.cu:19, " in told


def test_compiler_headers_are_not_named_as_places() -> None:
    assert "cmath" not in notes_of("gas_state")["instruction_mix"]


def test_without_machine_code_the_mix_is_by_opcode_and_line(wording) -> None:
    told = notes_of("stencil_march", code=False)["instruction_mix"]
    assert re.match(r"Executed instructions by opcode: \d+% [A-Z0-9]+, \d+% [A-Z0-9]+", told)
    assert re.search(r"; by line: \d+% at slow\.cu:\d+", told)
    wording(told)


@each_row("sample", NAMES)
def test_the_mix_is_noted_only_if_issuing_takes_much_of_the_time(sample: str) -> None:
    issuing = diagnosed(sample).account.part("issuing")
    assert ("instruction_mix" in notes_of(sample)) == (issuing.percent.value >= 100 * FEW)


def test_the_note_says_whether_requests_or_bytes_keep_l2_busy(wording) -> None:
    wording(notes_of("matrix_flip")["l2_stage"], notes_of("softmax_rows")["l2_stage"])


@pytest.mark.parametrize("sample", ["field_axpy", "gas_state"])
def test_no_l2_note_if_l2_only_passes_on_what_dram_delivers(sample: str) -> None:
    assert "l2_stage" not in notes_of(sample)


def test_the_note_compares_needed_and_moved_bytes(wording) -> None:
    wording(notes_of("field_axpy")["bytes_moved"])
    assert "bytes_moved" not in notes_of("field_axpy", code=False)


def test_cached_notes_belong_to_their_account() -> None:
    """They are kept with the view, together with their account."""
    diagnosis = diagnosed("field_axpy")
    view, account = diagnosis.view, diagnosis.account
    first = account_notes(view, account)
    assert account_notes(view, account) is first
    again = account_notes(view, copy(account))
    assert again is not first
    assert again == first
