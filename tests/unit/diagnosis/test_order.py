"""Why a finding ranks before another one that takes a larger part of the time."""

from __future__ import annotations

from keet.diagnosis.diagnosis import diagnose
from tests.rows import each_row
from tests.unit.analysis.real_launches import launch_of


@each_row(
    "name, said",
    [
        ("halo_filter/edges_of_single_bytes", "because fixing it saves more: "),
    ],
)
def test_the_reason_fits_the_gains(name: str, said: str) -> None:
    """A finding with a smaller gain does not save more."""
    reason = diagnose(launch_of(name), reads_code=False).order_reason
    assert reason is not None
    assert said in reason
    own, their = reason.rpartition(": ")[2].removesuffix("x.").split("x against ")
    assert (float(own) > float(their)) == ("saves more" in said)


def test_nothing_is_said_of_two_causes_that_are_only_possible() -> None:
    """The first one gains less if it is there, and it is no more certain than the other."""
    found = diagnose(launch_of("ode_batch/triangle_in_registers"), reads_code=False)
    assert [each.cause_certainty for each in found.findings[:2]] == ["possible", "possible"]
    assert found.order_reason is None
