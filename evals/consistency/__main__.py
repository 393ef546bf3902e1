"""Checks what keet prints with `keet verify`: `python -m evals.consistency --samples --corpus`."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from evals.bootstrap import share
from evals.consistency.check_output import (
    OF_ONE,
    OF_TWO,
    Checked,
    Doubt,
    Printed,
    Unread,
    check,
    texts_of_pair,
    texts_of_report,
)
from evals.pages import Heading, Part, Points, Prose, Table, as_markdown, interval_cell
from evals.public_reports import CORPUS, VARIABLE, reports_in
from kernels_samples.samples import load_samples


def main(argv: Sequence[str] | None = None) -> int:
    parser = ArgumentParser(prog="python -m evals.consistency", description=__doc__)
    parser.add_argument("--samples", action="store_true", help="the samples of the repository")
    parser.add_argument(
        "--corpus",
        type=Path,
        nargs="?",
        const=CORPUS,
        metavar="DIR",
        help=f"the reports of a folder (default: {VARIABLE})",
    )
    parser.add_argument("--date", default="", help="the date that the page states")
    args = parser.parse_args(argv)
    unread: list[Unread] = []
    sets: dict[str, Sequence[Checked]] = {}
    if args.samples:
        sets["samples"] = list(_checked(_of_samples(), unread))
    if args.corpus:
        sets["public reports"] = list(_checked(_of_folder(args.corpus), unread))
    command = f"python -m evals.consistency {' '.join(argv or sys.argv[1:])}"
    parts = parts_of(sets, unread)
    if args.date:
        parts.insert(0, Prose(f"Measured on {args.date}."))
    sys.stdout.write(as_markdown("Consistency: does keet contradict itself?", command, parts))
    return int(missed([each for checked in sets.values() for each in checked]))


def _of_samples() -> Iterator[Printed | Unread]:
    for sample in load_samples():
        reports = [sample.report(variant) for variant in ("slow", "fast")]
        for report in reports:
            yield from texts_of_report(report)
        yield from texts_of_pair(*reports)


def _of_folder(folder: Path) -> Iterator[Printed | Unread]:
    for path in reports_in(folder):
        yield from texts_of_report(path)


def _checked(texts: Iterable[Printed | Unread], unread: list[Unread]) -> Iterator[Checked]:
    for text in texts:
        if isinstance(text, Unread):
            unread.append(text)
        else:
            yield check(text)


# --- the page


LEAST_CONFIRMED = 0.95
_MOST_SHOWN = 40
_KINDS_SHOWN = 25
_TEXT = """\
Every text that keet prints about these reports is checked by `keet verify` against the same
reports (for `diff`, against both). Confirmed: the number has the value that the text states.
Refuted: it has another value, so keet contradicts itself, or the check is wrong. Not found: the
check cannot tell what the number is. Intervals draw whole reports.
Many of the numbers are not metrics of the report: forecasts, parts of the account, shares of lines.
The check computes those again and looks for their names in the text. `By metrics` counts numbers
that are confirmed without that. `Overruled` counts numbers that would be refuted without it: the
words around the number also name a metric that has another value."""
_CONTROL = """\
The same texts with another first digit in every confirmed number. A check that confirms them as
well would be useless: few may be confirmed."""


def parts_of(sets: dict[str, Sequence[Checked]], unread: Sequence[Unread]) -> list[Part]:
    every = [each for checked in sets.values() for each in checked]
    return [
        Prose(_answer(every)),
        Prose(_TEXT),
        Table([_HEAD, *(row for name, checked in sets.items() for row in _rows(name, checked))]),
        Heading("Refuted"),
        Points([_line(doubt) for each in every for doubt in each.refuted][:_MOST_SHOWN]),
        Heading("Not found, by kind"),
        Points(list(_kinds([doubt for each in every for doubt in each.not_found]))),
        Heading("Changed numbers"),
        Prose(_CONTROL),
        Table([_CHANGED_HEAD, *_changed_rows(every)]),
        Heading("Not checked"),
        Points(list(dict.fromkeys(map(str, unread)))),
        Heading("Thresholds"),
        Table([("score", "reached", "required", "met"), *_thresholds(every)]),
    ]


def missed(every: Sequence[Checked]) -> bool:
    return any(cells[-1] == "NO" for cells in _thresholds(every))


def _answer(every: Sequence[Checked]) -> str:
    numbers, confirmed = sum(c.numbers for c in every), sum(c.confirmed for c in every)
    refuted = sum(len(c.refuted) for c in every)
    reports = len({c.subject for c in every if c.form in OF_ONE})
    return (
        f"Of {numbers:,} numbers that keet prints about {reports} reports, "
        f"{_percent(confirmed, numbers)} are confirmed and {refuted:,} are refuted."
    )


_HEAD = (
    *("reports", "command", "texts", "numbers"),
    *("confirmed", "by metrics", "overruled", "refuted", "not found"),
)
_CHANGED_HEAD = ("command", "changed numbers", "still confirmed", "refuted", "not found")


def _rows(name: str, checked: Sequence[Checked]) -> Iterator[tuple[str, ...]]:
    for form in (*OF_ONE, *OF_TWO):
        mine = [each for each in checked if each.form == form and each.numbers]
        if not mine:
            continue
        clusters = [[1.0] * c.confirmed + [0.0] * (c.numbers - c.confirmed) for c in mine]
        yield (
            name,
            f"`{form}`",
            str(len(mine)),
            f"{sum(c.numbers for c in mine):,}",
            interval_cell(share(clusters)),
            _percent(sum(c.by_metrics for c in mine), sum(c.numbers for c in mine)),
            _percent(sum(c.overruled for c in mine), sum(c.numbers for c in mine)),
            str(sum(len(c.refuted) for c in mine)),
            str(sum(len(c.not_found) for c in mine)),
        )


def _changed_rows(every: Sequence[Checked]) -> Iterator[tuple[str, ...]]:
    for form in (*OF_ONE, *OF_TWO):
        mine = [each for each in every if each.form == form]
        changed = sum(c.changed for c in mine)
        confirmed = sum(c.changed_confirmed for c in mine)
        refuted = sum(c.changed_refuted for c in mine)
        if changed:
            rest = _percent(changed - confirmed - refuted, changed)
            cells = _percent(confirmed, changed), _percent(refuted, changed), rest
            yield f"`{form}`", f"{changed:,}", *cells


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def _line(doubt: Doubt) -> str:
    return (
        f"{doubt.form}, {doubt.subject}: {doubt.number}: {doubt.reason}; “{doubt.sentence[:160]}”"
    )


def _kinds(doubts: Sequence[Doubt]) -> Iterator[str]:
    """Sentences that differ only in numbers and names are of one kind."""
    counted: Counter[str] = Counter()
    example: dict[str, Doubt] = {}
    for doubt in doubts:
        said = re.sub(r"[\w./-]+:\d+|\d[\d.,]*|[█░▏▎▍▌▋▊▉·]+", "N", doubt.sentence)
        kind = f"{doubt.form} {said[:40]}"
        counted[kind] += 1
        example.setdefault(kind, doubt)
    for kind, count in counted.most_common(_KINDS_SHOWN):
        yield f"{count} times, as {_line(example[kind])}"


def _thresholds(every: Sequence[Checked]) -> list[tuple[str, str, str, str]]:
    """Every command has to reach the threshold by itself."""
    refuted = sum(len(c.refuted) for c in every)
    rows = [("numbers refuted", str(refuted), "0", "NO" if refuted else "yes")]
    for form in (*OF_ONE, *OF_TWO):
        mine = [each for each in every if each.form == form]
        if numbers := sum(c.numbers for c in mine):
            reached = sum(c.confirmed for c in mine) / numbers
            met = "yes" if reached >= LEAST_CONFIRMED else "NO"
            least = f"at least {LEAST_CONFIRMED}"
            rows.append((f"confirmed, `{form}`", f"{reached:.3f}", least, met))
    return rows


if __name__ == "__main__":
    sys.exit(main())
