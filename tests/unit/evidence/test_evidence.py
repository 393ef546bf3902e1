"""How evidence is formatted in texts."""

from keet.evidence import Evidence
from tests.rows import each_row


@each_row(
    ("value", "unit", "spec", "told"),
    [
        (61.4, "%", ".0f", "61%"),
        (0.25, "%", ".0f", "0.2%"),
        (0.8, "%", ".0f", "0.8%"),
        (0.97, "%", ".0f", "1%"),
        (0.0031, "%", ".0f", "0.003%"),
        (0.0, "%", ".0f", "0%"),
        (1e-9, "%", ".0f", "0%"),
        (-0.2, "%", ".0f", "-0%"),
        (99.65, "%", ".0f", "99.7%"),
        (99.97, "%", ".0f", "100%"),
        (100.0, "%", ".0f", "100%"),
        (101.3, "%", ".0f", "101%"),
        (0.0023, "", ".2f", "0.002"),
        (4.66, "", ".1f", "4.7"),
        (127.0, "", ".1f", "127"),
        (88021.3, "", ".1f", "88,021"),
        (1234.5, "us", ".1f", "1,234 us"),
        (12.34, "%", ".1f", "12.3%"),
        (float("nan"), "%", ".0f", "nan%"),
        (1234.0, "us", "base", "1.23 ms"),
        (400.0, "", "count", "400"),
        (2.5, "", "count", "2.5"),
        (0.01, "%", "share", "<0.1%"),
        (3.44, "%", "share", "3.4%"),
        (12.4, "%", "share", "12%"),
        (12.34, "x", "speedup", "12.3x"),
        (12.34, "x", "times", "12x"),
    ],
)
def test_numbers_are_formatted_for_reading(value: float, unit: str, spec: str, told: str) -> None:
    assert f"{Evidence('E1', 'metric', value, unit, 'label'):{spec}}" == told
