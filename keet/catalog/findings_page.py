"""docs/findings.md: the vocabulary as a page. Written by `make docs`, kept true by a test."""

from __future__ import annotations

import sys

from keet.catalog.loading import FindingSpec, findings

_INTRO = """\
# Findings

What keet can find in a launch. Made by `make docs` from `keet/catalog/findings.toml`; edit that,
not this page. The ids are a contract: other programs are written against them.
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
    remedies = [spec.remedy, *(f"({name}) {text}" for name, text in spec.remedies.items())]
    remedy = " ".join(remedies).format(here="")
    rules = f" Nsight Compute's rules on it: {', '.join(spec.rules)}." if spec.rules else ""
    return f"**`{spec.id}`** ({spec.label}). {spec.meaning} *Remedy*: {remedy}{rules}\n"


if __name__ == "__main__":
    sys.stdout.write(page())
