"""Writes measured.json."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from .common import PASSED, SCHEMA_VERSION, Refused, tell


class Digests(NamedTuple):
    """Digests of the candidate and of what it is compared with; a result belongs to these two."""

    digest: str
    against: str


def digests(root: Path, candidate: dict[str, Any], about: dict[str, Any]) -> Digests:
    sample = root / "samples" / candidate["sample"]
    names = ("problem.h", "problem.cu", "slow.cu", *about.get("headers", ()))
    parts = [sample / name for name in names]
    parts += sorted((root / "harness").iterdir())
    flags = " ".join(about.get("flags", ()))
    return Digests(_digest([root / candidate["file"]]), _digest(parts, flags))


def _digest(parts: Sequence[Path], more: str = "") -> str:
    whole = b"".join(part.read_bytes() for part in parts) + more.encode()
    return hashlib.sha256(whole).hexdigest()[:16]


@dataclass
class Measurement:
    """measured.json, written after each sample, so that a run can be interrupted."""

    file: Path
    record: dict[str, Any]

    @classmethod
    def opened(cls, file: Path) -> Measurement:
        record: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "results": []}
        if file.exists():
            record = json.loads(file.read_text(encoding="utf-8"))
        return cls(file, record)

    def check(self, **here: Any) -> None:
        """Refuses to continue a file that was measured in another way: it names one machine and one
        method for all its results."""
        if not self.record["results"]:
            return
        before = {**self.record.get("machine", {}), **self.record.get("settings", {})}
        for name, value in here.items():
            was = before.get(name)
            if was is not None and value is not None and was != value:
                raise Refused(
                    f"{self.file} was measured with {name} {was}, and this is {value}: "
                    "name another file with -o, or move that one away"
                )

    def done(self, candidate: dict[str, Any], of: Digests) -> bool:
        return any(
            key_of(result) == key_of(candidate) and (result["digest"], result["against"]) == of
            for result in self.record["results"]
            if result["status"] is not None
        )

    def add(self, candidate: dict[str, Any], of: Digests, result: dict[str, Any]) -> None:
        named = {name: candidate.get(name) for name in ("id", "model", "sample")}
        others = [r for r in self.record["results"] if key_of(r) != key_of(candidate)]
        self.record["results"] = [*others, {**named, **result, **of._asdict()}]
        self.save()
        tell(f"{_label(candidate)}: {result['status']} {_brief(result)}")

    def save(self) -> None:
        beside = self.file.with_name(self.file.name + ".part")
        beside.write_text(json.dumps(self.record, indent=1) + "\n", encoding="utf-8")
        beside.replace(self.file)


def key_of(record: dict[str, Any]) -> tuple[Any, Any]:
    return record["id"], record.get("model")


def _label(candidate: dict[str, Any]) -> str:
    model = candidate.get("model")
    return f"{candidate['id']} ({model})" if model else str(candidate["id"])


def _brief(result: dict[str, Any]) -> str:
    if result["status"] == PASSED:
        return f"{result['speedup']:.2f}x, {result['candidate_us']:.1f} us"
    return f"- {result['why']}"
