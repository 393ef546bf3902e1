"""The chosen numbers: plain floats with a meaning and a source, listed in docs/parameters.md."""

import copy
import json
import pickle
from typing import get_args

import pytest

from evals.analyst import parameter_page
from evals.analyst.parameter_values import moved, parameters
from evals.analyst.sensitivity import saved_study
from keet.analysis import account, time_model
from keet.analysis.parameters import Parameter, Source
from tests.conftest import TESTS

HALF = Parameter(0.5, "half of something", "judgement")


def test_results_and_copies_are_plain_floats_and_written_like_them() -> None:
    copies = [HALF * 1, copy.deepcopy(HALF), pickle.loads(pickle.dumps(HALF)), HALF**1, +HALF]
    assert [(type(each), each) for each in copies] == [(float, 0.5)] * 5
    assert {write(HALF) for write in (str, repr, json.dumps, "{}".format)} == {"0.5"}


def test_each_has_a_meaning_and_a_source() -> None:
    for name, found in parameters().items():
        assert len(found.meaning) >= 8, name
        assert found.source in get_args(Source), name
        assert found > 0, name


def test_parameters_are_moved_by_their_one_name_and_listed(monkeypatch) -> None:
    with moved("sharpness", 3.0):
        assert (time_model.SHARPNESS, account.SHARPNESS) == (3.0, 3.0)
    assert time_model.SHARPNESS is account.SHARPNESS is parameters()["sharpness"]
    page = (TESTS.parent / "docs" / "parameters.md").read_text(encoding="utf-8")
    assert page == parameter_page.page(), "run: make docs"
    assert saved_study().changed.keys() <= parameters().keys()
    monkeypatch.setattr(account, "WORTH", HALF, raising=False)
    with pytest.raises(ValueError, match="WORTH"):
        parameters()
