"""Writes docs/findings.md: all findings as a page. Run by `make docs`, checked by a test."""

from __future__ import annotations

import sys

from keet.findings import Condition, FindingSpec, findings
from keet.formatting import capitalized

_INTRO = """\
# Findings

The findings that keet can report for a launch, how it recognises them, and what it advises.
`make docs` generates this page from the modules in `keet/findings`; edit those, not this page. The
ids are stable, so that other programs can rely on them. `keet finding ID` prints the same text, with
measured cases and the values of parameters.

Each finding has several remedies. keet gives the first one whose conditions are all known to be
true from the report.
"""
FAMILIES = {
    "memory": "Memory access",
    "parallelism": "Latency and parallelism",
    "instructions": "Instructions",
    "healthy": "Healthy ends",
}


def page() -> str:
    parts = [_INTRO]
    for family, title in FAMILIES.items():
        parts.append(f"## {title}\n")
        parts += [_entry(spec) for spec in findings_of(family)]
    return "\n".join(parts)


def findings_of(family: str) -> list[FindingSpec]:
    return [spec for spec in findings().values() if spec.family == family]


def _entry(spec: FindingSpec) -> str:
    rules = f" Nsight Compute's rules on it: {', '.join(spec.rules)}." if spec.rules else ""
    remedies = "\n".join(
        f"- *{condition_text(each)}* (`{each.name}`): {remedy_text(text)}"
        for each, text in spec.remedies.items()
    )
    unlike = "\n".join(
        f"- [{findings()[other].label}](#{other}): {text}" for other, text in spec.unlike.items()
    )
    parts = (
        f"### `{spec.id}`",
        f"{capitalized(spec.label)}. {spec.meaning}{rules}",
        f"How it is judged: {spec.how}",
        f"Similar findings:\n\n{unlike}",
        f"Remedies:\n\n{remedies}",
    )
    return "\n\n".join(parts) + "\n"


def condition_text(condition: Condition) -> str:
    """The condition of a remedy, in the words of its facts."""
    holds = "; ".join(fact.words for fact in condition.needs)
    fails = [fact.negated or f"not: {fact.words}" for fact in condition.excludes]
    parts = [part for part in (holds, *fails) if part]
    return remedy_text(", and ".join(parts) or "otherwise", library="a library")


def remedy_text(text: str, library: str = "the library") -> str:
    """The text without the placeholders that a report fills in."""
    return text.replace("{here}", "").replace("{library}", library)


if __name__ == "__main__":
    sys.stdout.write(page())
