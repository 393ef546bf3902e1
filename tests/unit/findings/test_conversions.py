"""The XU pipe busy with conversions: what they are, and which are repeated."""

from __future__ import annotations

import pytest

from keet.analysis.decisions.saturated import conversions
from keet.analysis.launch_view import LaunchView
from keet.analysis.time_model import Effect, TimeModel
from keet.diagnosis.diagnosis import ranked_candidates
from keet.findings import findings
from tests.unit.analysis.real_launches import launch_of


def test_repeated_conversions_are_counted_and_named() -> None:
    view = LaunchView(launch_of("quant_dense/conversion_inside"), reads_code=True)
    ranked = {each.candidate.id: each for each in ranked_candidates(view, TimeModel(view))}
    assert "sfu_bound" not in ranked  # a conversion is no special function
    pipe = ranked["pipe_saturated"]
    assert (pipe.candidate.variant, pipe.candidate.basis) == ("XU", "measured")
    assert "conversions (I2F)" in pipe.candidate.text
    assert "converted 16 times each" in pipe.candidate.text
    assert 1.2 < pipe.possible < 1.4


def test_what_are_no_repeated_conversions() -> None:
    found = conversions(LaunchView(launch_of("layernorm/formula_after_add"), reads_code=True))
    assert found.names == "F2F"
    assert found.left is None
    assert found.times is None
    assert conversions(LaunchView(launch_of("nbody/sine_of_every_harmonic"))) is None
    # powf and sincosf round their arguments; the launch has no MUFU instruction.
    view = LaunchView(launch_of("rope_cache/angles_per_pair"), reads_code=True)
    assert conversions(view) is None
    ranked = {each.candidate.id: each for each in ranked_candidates(view, TimeModel(view))}
    assert 1.1 < ranked["sfu_bound"].possible < 1.5


def test_wide_accesses_leave_a_pipe_full_of_conversions_full() -> None:
    """Values are converted as often as before, whatever loads them."""
    view = LaunchView(launch_of("quant_dense/conversion_inside"), reads_code=True)
    model = TimeModel(view)
    effects = [each.effect for each in findings()["narrow_access"].candidates(view, model)]
    left = [each.units["XU"] for each in effects if isinstance(each, Effect)]
    assert min(left) > 0.99


@pytest.mark.slow
def test_instructions_take_waiting_at_barriers_with_them() -> None:
    """Warps wait for others that compute powers."""
    view = LaunchView(launch_of("option_tree/power_per_node"), reads_code=True)
    first = ranked_candidates(view, TimeModel(view))[0]
    assert first.candidate.id == "sfu_bound"
    assert isinstance(first.candidate.effect, Effect)
    assert first.candidate.effect.waits["barrier"] < 0.5
    assert first.possible > 4
