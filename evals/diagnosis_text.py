"""The scores as text: the means, a row for each sample, and why each miss is one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evals.bootstrap import RESAMPLES, Interval, Paired
from evals.scoring import HealthyRow, Row, off_by
from evals.summary import Summary

_NOTE = f"""\
95 % intervals: paired bootstrap, {RESAMPLES:,} draws of whole samples. NVIDIA: rules in the same
reports by their estimates; a rule counts for every finding that it can mean, ties for it.
Forecast error: mean |log2(forecast / measured)|, 1 is a factor of two; no forecast counts as 1x.
keet's checks were written with these samples at hand: this is how well they fit, not what
to expect of kernels that nobody has seen."""


def text_of(summary: Summary, rows: Sequence[Row], healthy: Sequence[HealthyRow]) -> str:
    parts = [
        _means(summary),
        _NOTE.splitlines(),
        _table([_HEAD, *map(_cells, rows)]),
        _table([_HEALTHY_HEAD, *map(_healthy_cells, healthy)]),
        ["Misses", *(line for row in rows for line in _misses(row))],
    ]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _means(summary: Summary) -> list[str]:
    lines = [("", "keet", "NVIDIA", "keet - NVIDIA"), *_paired_means(summary)]
    return [
        f"Diagnosis of {summary.samples} samples with a planted cause",
        *_table(lines),
        "",
        *(f"{label:<36}{value}" for label, value in _single_means(summary)),
    ]


def _paired_means(summary: Summary) -> Iterator[tuple[str, ...]]:
    named = {
        "top-1, all rules": summary.top1,
        "top-1, global estimates": summary.top1_global,
        "top-3, all rules": summary.top3,
        "top-3, global estimates": summary.top3_global,
        "false alarms, healthy variants": summary.false_alarms,
        "forecast error, largest estimate": summary.forecast_error,
        "  where both have one": summary.forecast_error_both,
        "  nearest estimate, in hindsight": summary.forecast_error_nearest,
        "forecast bias, below 0 is too low": summary.forecast_bias,
    }
    return ((label, *_sides(pair)) for label, pair in named.items() if pair)


def _sides(pair: Paired) -> tuple[str, str, str]:
    return _interval(pair.keet), _interval(pair.baseline), _interval(pair.difference)


def _single_means(summary: Summary) -> Iterator[tuple[str, object]]:
    yield "a cause line in the first 3 places", _interval(summary.located)
    yield "  samples without places", ", ".join(summary.without_places) or "none"
    yield "measured between low and high", _interval(summary.covered)
    yield "no forecast for the cause", summary.without_forecast
    yield "  no global estimate of NVIDIA's", summary.nvidia_without_forecast
    yield "fixed cause still raised on fast", summary.still_raised
    yield "what is left named first", summary.left_named
    yield "healthy ceiling named", summary.healthy_named
    yield "findings in NVIDIA's first rank", f"{summary.nvidia_first_means:.1f} on average"


_HEAD = (
    "sample",
    "planted",
    "rank",
    "NV all",
    "NV global",
    "line",
    "measured",
    "low-likely-high",
    "error",
    "NVIDIA",
    "error",
)
_HEALTHY_HEAD = ("healthy", "variant", "raised", "ceiling named", "NVIDIA's largest")


def _cells(row: Row) -> tuple[str, ...]:
    said = row.forecast
    spread = "-"
    if said.low is not None and said.likely is not None and said.high is not None:
        spread = f"{said.low:.2f}-{said.likely:.2f}-{said.high:.2f}"
    return (
        row.sample,
        row.dominant,
        _or_dash(row.rank, ""),
        _or_dash(row.nvidia_rank, ""),
        _or_dash(row.nvidia_global_rank, ""),
        "yes" if row.located else "no" if row.places else "none",
        f"{said.measured:.2f}",
        spread + ("" if said.covered or spread == "-" else " !"),
        f"{off_by(said.likely, said.measured):.2f}",
        _or_dash(said.nvidia, ".2f"),
        f"{off_by(said.nvidia, said.measured):.2f}",
    )


def _healthy_cells(row: HealthyRow) -> tuple[str, ...]:
    alarm = " !" if row.nvidia_alarm else ""
    raised = ", ".join(row.raised) or "nothing"
    named = "yes" if row.named else "no"
    return row.sample, row.variant, raised, named, _or_dash(row.nvidia, ".2f") + alarm


def _misses(row: Row) -> Iterator[str]:
    yield from (f"  {row.sample}: {miss}" for miss in row.misses)


def _table(lines: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*lines)]
    return ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]


def _or_dash(value: float | None, spec: str) -> str:
    return "-" if value is None else format(value, spec)


def _interval(interval: Interval) -> str:
    return f"{interval.mean:.2f} ({interval.low:.2f} to {interval.high:.2f})"
