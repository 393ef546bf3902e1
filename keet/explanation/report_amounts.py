"""The document of `keet amounts`: the amounts of chosen launches, and of the program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keet.analysis.capture.report_document import report_document
from keet.analysis.launch_view import LaunchView
from keet.analysis.ledger import Ledger
from keet.analysis.sass.analyses.footprints import MANY_ENTRIES
from keet.analysis.several_launches.program_amounts import program_amounts
from keet.documents.amounts import AmountsDocument, AmountsLaunch
from keet.documents.document import Streamed
from keet.documents.shared_types import DeviceDocument
from keet.explanation.launch_amounts import launch_amounts
from keet.explanation.launch_figures import moving_figures
from keet.profile import Launch, Profile
from keet.profile.launch_sequences import iterate_launches


def amounts_document(
    profile: Profile,
    launches: Sequence[Launch],
    per: tuple[str, float] | None = None,
    *,
    sass: bool = True,
) -> Streamed[AmountsDocument]:
    """`per`: what amounts are counted per, and how many of these a launch has; None: what it
    stores."""
    return Streamed(AmountsDocument, _fields(profile, launches, per, sass=sass))


def _fields(
    profile: Profile, launches: Sequence[Launch], per: tuple[str, float] | None, *, sass: bool
) -> Iterator[tuple[str, Any]]:
    yield "report", report_document(profile)
    yield "device", DeviceDocument.taken_from(launches[0].device)
    with_code = profile.with_code(launches) if sass else []
    profile.prefetch_code(with_code)
    views = {launch.id: thorough_view(launch) for launch in with_code}
    typical = (
        views[launch.id] for launch in profile.representatives(launches) if launch.id in views
    )
    program = program_amounts(profile, typical, Ledger())
    if program is not None:
        yield "program", program
    yield "launches", _launches(launches, views, per)


def thorough_view(launch: Launch) -> LaunchView:
    """With machine code, and more time for the addresses of its accesses than an explanation
    takes."""
    view = LaunchView(launch, reads_code=True)
    if view.code is not None:
        view.code.footprints.entries = MANY_ENTRIES
    return view


def _launches(
    launches: Sequence[Launch], views: Mapping[int, LaunchView], per: tuple[str, float] | None
) -> Iterator[AmountsLaunch]:
    """`views`: of the launches whose machine code is read."""
    for launch in iterate_launches(launches, "counting work"):
        view = views.get(launch.id) or LaunchView(launch)
        view.counted_per = per
        duration = view.value("duration")
        yield AmountsLaunch(
            id=launch.id,
            kernel=launch.kernel,
            grid=launch.grid,
            block=launch.block,
            duration_us=duration / 1e3 if duration is not None else None,
            figures=moving_figures(view),
            amounts=launch_amounts(view),
            evidence={piece.id: piece for piece in view.ledger},
        )
