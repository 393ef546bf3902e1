"""docs/findings.md: the vocabulary as a page. Written by `make docs`, kept true by a test."""

from __future__ import annotations

import sys

from keet.catalog.loading import FindingSpec, Remedy, facts, findings

_INTRO = """\
# Findings

What keet can find in a launch, and what it advises. Made by `make docs` from `findings.toml`,
`remedies/` and `facts/` in `keet/catalog`; edit those, not this page. The ids are a contract: other
programs are written against them.

Each finding has several remedies. keet gives the first one whose conditions the report shows to
hold; what a report does not show does not count.
"""
_FAMILIES = {
    "memory": "Memory access",
    "parallelism": "Latency and parallelism",
    "instructions": "Instructions",
    "healthy": "Healthy ends",
}


def page() -> str:
    parts = [_INTRO]
    for family, title in _FAMILIES.items():
        parts.append(f"## {title}\n")
        parts += [_entry(spec) for spec in findings().values() if spec.family == family]
    return "\n".join(parts)


def _entry(spec: FindingSpec) -> str:
    rules = f" Nsight Compute's rules on it: {', '.join(spec.rules)}." if spec.rules else ""
    remedies = "\n".join(f"- {_condition(each)}: {_plain(each.text)}" for each in spec.remedies)
    return f"**`{spec.id}`** ({spec.label}). {spec.meaning}{rules}\n\n{remedies}\n"


def _condition(remedy: Remedy) -> str:
    """In the words of the facts."""
    parts = [facts()[each].words for each in remedy.needs]
    parts += [f"not: {facts()[each].words}" for each in remedy.excludes]
    return f"*{_plain('; '.join(parts) or 'otherwise')}* (`{remedy.name}`)"


def _plain(text: str) -> str:
    """Without the slots that a report fills in."""
    return text.replace("{here}", "").replace("{library}", "the library")


if __name__ == "__main__":
    sys.stdout.write(page())
