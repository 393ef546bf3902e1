"""Evidence as JSON: `numbers_by_id` gives the same result as `number` for each."""

from __future__ import annotations

import math

from keet.evidence import Evidence
from keet.render.json.encoding.writing import json_line
from keet.render.json.evidence import NumberDocument, number, numbers_by_id


def test_numbers_by_id_equals_number_for_each() -> None:
    values = [1, 2.5, 0.0, math.nan, math.inf, -math.inf, 1 << 60]
    evidence = [
        Evidence(f"m_{at}#0", f"m_{at}", value, "%", f"label {at}", None, (f"m_{at - 1}#0",))
        for at, value in enumerate(values)
    ]
    evidence.append(Evidence("last@k.cu:3#0", "last", 3.0, "", "last", "k.cu:3"))
    alone = {each.id: number(each) for each in evidence}
    together = numbers_by_id(evidence)
    assert json_line(together) == json_line(alone)
    assert [NumberDocument(**each) for each in together.values()] == [
        NumberDocument(**each) for each in alone.values()
    ]
