"""What notebooks show: escaped, short, and complete enough to act on."""

import re
from dataclasses import replace

import pytest

import keet as api
from keet.api.notebook import _STYLE
from keet.profile import KernelName, Profile
from keet.report import read_profile
from tests.many_launches import copied, repeated
from tests.page_parts import PageParts
from tests.unit.api.conftest import TOUR

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'


def renamed(profile: Profile, name: str) -> Profile:
    """The same with another name of its kernels."""
    launches = [copied(launch, launch.id) for launch in profile]
    for launch in launches:
        launch.name = KernelName(name, name, name)
    return replace(profile, launches=tuple(launches))


def test_an_explanation(tour: api.ExplainResult) -> None:
    shown = PageParts(tour._repr_html_()).text
    assert "tour_full.ncu-repz" in shown
    for launch in tour.launches:
        assert launch.kernel in shown
    assert tour.launches[0].headline in shown
    finding, launch = tour.findings[0], tour.launches[0]
    assert finding.title in shown
    assert finding.gain in shown
    shown = PageParts(launch._repr_html_())
    assert launch.headline in shown.text
    assert shown.attributes("svg")
    findings = PageParts(tour.findings._repr_html_()).text
    assert all(finding.title in findings for finding in tour.findings)
    account = PageParts(launch.account._repr_html_()).text
    assert launch.account.leading(1)[0].label in account
    assert "No findings" in api.FindingTable([])._repr_html_()


def test_a_profile() -> None:
    shown = PageParts(api.read_profile(TOUR)._repr_html_() or "").text
    assert "tour_full.ncu-repz: 3 launches on NVIDIA H200" in shown
    assert "transpose_tiles<float, 32>" in shown
    assert "12.26 us" in shown
    made = repeated(read_profile(TOUR), 40)._repr_html_() or ""
    assert len(made) < 10_000
    assert "and 108 more launches: profile.to_pandas()" in made


@pytest.mark.slow
def test_a_difference() -> None:
    made = api.diff(TOUR, launches=(0, 1), gate=5)
    shown = PageParts(made._repr_html_()).text
    assert "gate of 5% passed. 5.66x faster: 69.34 us → 12.26 us" in shown
    assert "uncoalesced global access" in shown


def test_a_roofline() -> None:
    """Its chart is an image: inside the page, its style would change the notebook's."""
    made = api.roofline(TOUR, launches=0)
    shown = PageParts(made._repr_html_())
    assert made.launches[0].reading in shown.text
    (image,) = shown.attributes("img")
    assert image["src"].startswith("data:image/svg+xml;base64,")


@pytest.mark.slow
def test_names_of_a_report_are_never_markup() -> None:
    hostile = renamed(read_profile(TOUR), HOSTILE)
    told = api.explain(hostile, sass=False)
    parts = (told.launches[0], told.findings, told.account, api.diff(hostile, launches=(0, 1)))
    for each in (hostile, told, *parts, api.roofline(hostile)):
        shown = PageParts(each._repr_html_() or "")
        assert shown.elements
        assert not shown.attributes("script")
        assert not [name for _, given in shown.elements for name in given if name.startswith("on")]
        assert len(shown.attributes("img")) == (type(each) is api.RooflineResult)


@pytest.mark.slow
def test_an_explanation_of_many_launches_stays_short() -> None:
    made = api.explain(repeated(read_profile(TOUR), 15), sass=False)
    assert len(made._repr_html_()) < 30_000
    assert len(made.findings._repr_html_()) < 15_000
    assert len(made.account._repr_html_()) < 15_000


def test_colours_are_those_of_the_notebook() -> None:
    """Text that sets no colour and no background can be read in light and dark themes; the blue of
    the bars has a contrast of more than 3 with both."""
    colours = re.findall(r"(?<![-\w])(?:color|background|fill)\s*:\s*([^;}]+)", _STYLE)
    assert {colour.strip() for colour in colours} == {"transparent", "inherit", "#3b82f6"}
