"""NVIDIA's `ncu-report` behind a process boundary.

In the same process it leaks what it touches, crashes on damaged code, hangs on a fork and answers
bad files with silence (docs/decisions/0002). So each question starts a short-lived child with a
limit on time and memory, on a private copy of exactly the bytes that keet has checked.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keet.errors import ReaderFailed
from keet.ingest.session import device_from_metrics
from keet.ingest.stored import StoredLaunch
from keet.profile import (
    Absent,
    FocusMetric,
    Instances,
    KernelName,
    Launch,
    Location,
    NvtxRange,
    RawMetric,
    RuleKind,
    RuleResult,
    SourceMarker,
    SpeedupEstimate,
    SpeedupScope,
    Workload,
)

if TYPE_CHECKING:
    import subprocess

PACKAGE = "ncu-report"
SECONDS = 120.0
MEGABYTES = 4096
_CHILD = Path(__file__).with_name("native_child.py")
_UNKNOWN_CODE = "???"
"""What NVIDIA's reader says for code of a GPU that it no longer disassembles."""


def installed_version() -> str | None:
    """The version of NVIDIA's reader, without loading it."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return None


def disassemble(
    data: bytes, questions: Mapping[int, Sequence[int]]
) -> dict[int, Mapping[int, str] | Absent]:
    """The SASS text at the addresses of each launch, by its number.

    Whatever goes wrong costs the text and nothing else.
    """
    answers: dict[int, Mapping[int, str] | Absent] = dict.fromkeys(questions, _NO_ADDRESSES)
    wanted = {str(launch): list(pcs) for launch, pcs in questions.items() if pcs}
    if not wanted:
        return answers
    if find_spec("ncu_report") is None:
        missing = Absent("NVIDIA's reader is not installed", f"pip install {PACKAGE}")
        return answers | {int(launch): missing for launch in wanted}
    try:
        found = _ask(data, {"want": "disassembly", "addresses": wanted})
    except ReaderFailed as failure:
        return answers | {int(launch): Absent(failure.problem, failure.remedy) for launch in wanted}
    return answers | {int(launch): _known_code(texts) for launch, texts in found.items()}


_NO_ADDRESSES = Absent(
    "the report has no numbers for single instructions",
    "profile again with: ncu --section SourceCounters",
)


def _known_code(texts: Mapping[str, str]) -> Mapping[int, str] | Absent:
    known = {int(key): text.strip() for key, text in texts.items() if text != _UNKNOWN_CODE}
    if known:
        return known
    return Absent(
        f"{PACKAGE} {installed_version()} can't disassemble code of this GPU",
        "an older one may: ncu-report 2025.3.1 still knows Volta",
    )


def read_launch(data: bytes, launch: int, addresses: Iterable[int]) -> Launch:
    """A whole launch through NVIDIA's reader: the reference that keet's own reader is held to."""
    answer = _ask(data, {"want": "everything", "launch": launch, "addresses": list(addresses)})
    told = {name: metric for name, metric in answer["metrics"].items() if metric is not None}
    metrics = {name: RawMetric(metric["value"]) for name, metric in told.items()}
    stored = StoredLaunch(
        stored_device=device_from_metrics(metrics.get),
        metrics=metrics,
        stored_instances={name: _instances(m) for name, m in told.items() if "values" in m},
        stored_sections=tuple(answer["sections"]),
        stored_rules=tuple(_rule(rule) for rule in answer["rules"]),
        stored_markers=tuple(SourceMarker(**marker) for marker in answer["markers"]),
        stored_nvtx=tuple(NvtxRange(**entry) for entry in answer["nvtx"]),
        stored_files={path: text or None for path, text in answer["source_files"].items()},
        stored_locations={int(pc): Location(*where) for pc, where in answer["locations"].items()},
    )
    return Launch(
        number=launch,
        name=KernelName(**{form: text or "" for form, text in answer["name"].items()}),
        workload=Workload(answer["workload"]),
        grid=None,
        block=None,
        data=stored,
    )


def count_launches(data: bytes) -> int:
    return int(_ask(data, {"want": "count"})["launches"])


def _instances(metric: Mapping[str, Any]) -> Instances:
    ids = metric.get("ids")
    return Instances(tuple(metric["values"]), None if ids is None else tuple(ids))


def _rule(rule: dict[str, Any]) -> RuleResult:
    estimate = rule.pop("speedup", None)
    speedup = (
        SpeedupEstimate(SpeedupScope(estimate["scope"]), estimate["percent"]) if estimate else None
    )
    return RuleResult(
        **{
            **rule,
            "kind": RuleKind(rule["kind"]),
            "focus": tuple(FocusMetric(**focus) for focus in rule["focus"]),
            "speedup": speedup,
        }
    )


def _ask(data: bytes, question: dict[str, Any]) -> Any:
    """Put one question to a child; raises `ReaderFailed` for every way in which it can go wrong."""
    import subprocess

    with _private_copy(data) as path:
        request = json.dumps({"path": str(path), "megabytes": MEGABYTES, **question})
        try:
            done = subprocess.run(
                [sys.executable, "-I", str(_CHILD)],
                input=request.encode(),
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise _failed(f"it did not answer within {SECONDS:.0f} s") from None
        except OSError as problem:
            raise _failed(f"it could not be started ({problem})") from None
    if done.returncode != 0:
        raise _failed(_cause_of_death(done))
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise _failed("its answer could not be understood") from None


def _cause_of_death(done: subprocess.CompletedProcess[bytes]) -> str:
    if done.returncode < 0:
        return f"it was killed by signal {-done.returncode}"
    last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
    return f"it failed with {last[0]!r}" if last else f"it failed with code {done.returncode}"


def _failed(problem: str) -> ReaderFailed:
    return ReaderFailed(
        "ncu-report",
        f"NVIDIA's reader gave no answer: {problem}",
        "the values are unaffected; for the code, open the report in Nsight Compute",
    )


@contextmanager
def _private_copy(data: bytes) -> Iterator[Path]:
    """The bytes as a file that nobody changes while the child reads it lazily by path."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="keet-") as folder:
        path = Path(folder) / "report.ncu-rep"
        path.write_bytes(data)
        yield path
