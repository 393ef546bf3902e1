"""How the two sides of a difference were captured, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from keet.analysis.source_lines import find_hotspots
from keet.comparison.result import Difference, PairDifference
from keet.comparison.sides import Side
from keet.formats.html.capture import captured_text
from keet.formats.html.data_table import scrolling
from keet.formats.html.markup import Html, element, fragment, joined
from keet.formatting import shape_text
from keet.pages.device import describe_device
from keet.profile import Absent, Launch
from keet.safe_text import one_line
from keet.units import Quantity, format_number


def captures(difference: Difference, pairs: Sequence[PairDifference]) -> Html:
    """`pairs`: those whose launches are told too."""
    columns = [_facts_of(side) for side in difference.sides]
    heads = [element("th", name, scope="col") for name in ("Fact", "Before", "After")]
    table = element(
        "table",
        element("thead", element("tr", heads)),
        element("tbody", _rows(columns)),
        [_launches(pair) for pair in pairs],
        class_="captures",
    )
    return scrolling("How both sides were captured", table)


def _rows(columns: Sequence[Mapping[str, Html]]) -> Iterator[Html]:
    for name in dict.fromkeys(name for column in columns for name in column):
        cells = [element("td", each.get(name, "not recorded"), class_="break") for each in columns]
        yield element("tr", element("th", name, scope="row"), cells)


def _launches(pair: PairDifference) -> Html:
    """How the kernels of a pair were launched; for repetitions, the representative launch."""
    columns = [_launch_facts(side) for side in pair.pairing.typical]
    name = element("th", "Launch of ", element("code", one_line(pair.kernel)), colspan=3)
    return element("tbody", element("tr", name), _rows(columns))


def _launch_facts(launches: Sequence[Launch]) -> dict[str, Html]:
    """Of fused kernels, one line each."""
    told = [_facts_of_launch(launch) for launch in launches]
    names = dict.fromkeys(name for facts in told for name in facts)
    return {
        name: joined((facts.get(name, "not recorded") for facts in told), element("br"))
        for name in names
    }


def _facts_of_launch(launch: Launch) -> dict[str, str]:
    texts = {
        "Grid": shape_text(launch.grid, ""),
        "Block": shape_text(launch.block, ""),
        "Registers per thread": _plain(launch.get("registers_per_thread")),
        "SM clock": str(launch.get("sm_frequency") or ""),
        "Warp samples": _samples(launch),
    }
    return {name: text for name, text in texts.items() if text}


def _samples(launch: Launch) -> str:
    found = find_hotspots(launch)
    if isinstance(found, Absent) or found.ranked_by != "samples":
        return ""
    return f"{found.total:,}"


def _plain(number: Quantity | None) -> str:
    return format_number(number.value) if number else ""


def _facts_of(side: Side) -> dict[str, Html]:
    profile = side.first.profile
    origin = profile.provenance
    devices = dict.fromkeys(
        describe_device(d) for run in side.captures for d in run.profile.devices
    )
    reports = [element("code", one_line(run.profile.provenance.path)) for run in side.captures]
    launches = len(side.first.launches)
    texts: dict[str, str | None] = {
        "GPU": ", ".join(devices),
        "Launches": f"{launches} of {len(profile.launches)}"
        if side.first.partial
        else f"{launches}",
        "Captured": captured_text(origin.created) if origin.created else None,
        "ncu": origin.ncu_version,
        "CUDA": origin.cuda_version,
        "Driver": origin.driver_version,
    }
    facts = {"Report": joined(reports, element("br"))}
    facts |= {name: fragment(one_line(text)) for name, text in texts.items() if text}
    if origin.command_line:
        line = element("code", one_line(origin.command_line))
        facts["Command"] = element("details", element("summary", "ncu's command line"), line)
    return facts | _notes(side)


def _notes(side: Side) -> dict[str, Html]:
    notes: Sequence[str] = [n for run in side.captures for n in run.profile.provenance.notes]
    return {"Notes": joined(map(one_line, notes), element("br"))} if notes else {}
