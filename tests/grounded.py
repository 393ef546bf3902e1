"""Numbers in a text that no evidence has: texts of keet print their numbers from evidence."""

import math
from collections.abc import Iterable

from keet.evidence import Evidence
from keet.profile import Launch
from keet.units import Quantity
from keet.verification.numbers import TextNumber, find_numbers
from keet.verification.verdicts import agrees


def strays_in(text: str, evidence: Iterable[Evidence], launch: Launch) -> list[str]:
    """`launch`: its shapes and counts may be stated, too."""
    known = [Quantity(piece.value, piece.unit) for piece in evidence]
    known += [Quantity(-each.value, each.unit) for each in known if each.value < 0]
    shapes = [shape for shape in (launch.grid, launch.block, launch.cluster) if shape]
    counted = ((launch.grid, "block"), (launch.block, "thread"))
    known += [Quantity(math.prod(shape), unit) for shape, unit in counted if shape]
    known += [Quantity(launch.device.sm_count, "SM")] if launch.device.sm_count else []

    def is_known(number: TextNumber) -> bool:
        if number.shape:
            return (*number.shape, 1, 1)[:3] in shapes
        return any(agrees(number, each) for each in known)

    name, device = launch.name, launch.device.name
    names = {name.short, name.full, name.function, name.mangled, device or ""} - {""}
    numbers = find_numbers(text, tuple(sorted(names, key=len, reverse=True)))
    return [number.text for number in numbers if not is_known(number)]
