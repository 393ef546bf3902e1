"""How a launch was configured and at which clocks it ran, as far as the report says."""

from __future__ import annotations

from collections.abc import Iterator

from keet.analysis.kernel.resident_warps import occupancy_limit
from keet.formats.html.markup import Html, element
from keet.formatting import capitalized, shape_text
from keet.pages.device import workload_noun
from keet.pages.figures import FactsFigure
from keet.profile import Launch, Workload
from keet.safe_text import one_line, shortened
from keet.units import Quantity

_LONGEST_NAME = 500
"""Characters: demangled names can have 30,000, and each is on a page several times."""
_AMOUNTS = {"Waves per SM": "waves_per_sm", "Registers per thread": "registers_per_thread"}
_SHARED = {"static": "shared_memory_static", "dynamic": "shared_memory_dynamic"}
_OCCUPANCY = {"theoretical": "theoretical_occupancy_pct", "achieved": "achieved_occupancy_pct"}
_CLOCKS = {"SM clock": "sm_frequency", "DRAM clock": "dram_frequency"}


def full_name(launch: Launch) -> str:
    """For a tooltip."""
    return shortened(one_line(launch.name.full), _LONGEST_NAME)


def draw_facts(block: FactsFigure) -> Html | None:
    return launch_facts(block.launch)


def launch_facts(launch: Launch) -> Html | None:
    """None if the report has none of these facts."""
    rows = [*_configuration(launch), *_amounts(launch, _CLOCKS)]
    if not rows:
        return None
    facts = [element("div", element("dt", name), element("dd", text)) for name, text in rows]
    title = capitalized(workload_noun(launch))
    return element(
        "section", element("h3", title), element("dl", facts, class_="tiles"), class_="setup"
    )


def _configuration(launch: Launch) -> Iterator[tuple[str, str]]:
    """Empty for ranges and graphs, whose values are sums or maxima over several launches."""
    if launch.workload is not Workload.KERNEL:
        return
    sizes = {"Grid": launch.grid, "Block": launch.block, "Cluster": launch.cluster}
    yield from ((name, shape_text(size)) for name, size in sizes.items() if size)
    yield from _amounts(launch, _AMOUNTS)
    if shared := _named(launch, _SHARED):
        yield "Shared memory per block", shared
    if occupancy := _named(launch, _OCCUPANCY):
        limit = occupancy_limit(launch)
        yield "Occupancy", f"{occupancy}; {limit}" if limit else occupancy


def _amounts(launch: Launch, metrics: dict[str, str]) -> Iterator[tuple[str, str]]:
    found = ((name, launch.get(metric)) for name, metric in metrics.items())
    yield from ((name, _amount(quantity)) for name, quantity in found if quantity is not None)


def _named(launch: Launch, metrics: dict[str, str]) -> str:
    """`0 B static, 16.38 kB dynamic`."""
    return ", ".join(f"{text} {name}" for name, text in _amounts(launch, metrics))


def _amount(quantity: Quantity) -> str:
    """Without what the row's name says: `32` registers per thread."""
    unit = quantity.unit.partition("/")[0]
    text = str(Quantity(quantity.value, "" if unit == "register" else unit))
    return text.replace(" %", "%")  # as everywhere on a page
