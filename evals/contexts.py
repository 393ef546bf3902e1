"""The text about a profile that a model gets in each condition, in addition to the source."""

from __future__ import annotations

import hashlib
import re
import tarfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from evals.runs import Condition
from keet.cli.context import CAUSES, MAX_TOKENS
from keet.errors import UsageError
from keet.profile import Launch, Profile
from kernels_samples.samples import Sample

DETAILS = Path(__file__).parent / "details.tar.xz"
"""The output of `ncu --import REPORT --page details` for every sample report."""
_REPORT_PATH = re.compile(r"[^\s`'\"]*/([^\s`'\"/]+\.ncu-rep)z?")
"""Folder names that would reveal that the text is part of an eval. The report is named as ncu wrote
it, so that prompts do not depend on how it is stored."""
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)


def context(
    sample: Sample, variant: str, condition: Condition, explanations: Path | None = None
) -> str:
    """The text about the profile; empty in conditions without one. `explanations`: a folder with
    the agent's explanation of each sample's `slow` as NAME.md."""
    if condition == "raw":
        return details_page(sample, variant)
    if condition == "keet":
        return keet_context(sample, variant)
    if condition == "agent":
        return agent_explanation(sample, variant, explanations)
    return ""


def details_page(sample: Sample, variant: str) -> str:
    name = f"{sample.name}.{variant}.txt"
    if (text := _details().get(name)) is None:
        raise UsageError(
            f"{DETAILS} has no {name}; add to it: "
            f"ncu --import {sample.report(variant)} --page details > details/{name}"
        )
    return text


@cache
def _details() -> dict[str, str]:
    """Reads all pages at once: finding one in a compressed archive means reading all of it."""
    with tarfile.open(DETAILS, "r:xz") as archive:
        files = ((Path(member.name).name, archive.extractfile(member)) for member in archive)
        return {name: file.read().decode("utf-8") for name, file in files if file is not None}


def keet_context(sample: Sample, variant: str) -> str:
    """The output of `keet context REPORT`."""
    return _keet_context(sample.report(variant), sample.kernel)


@cache
def _keet_context(report: Path, kernel: str) -> str:
    from keet.explanation.analyst import explain
    from keet.pages.context import context_text

    profile, launch = profile_and_launch(report, kernel)
    return context_text(explain(profile, [launch], CAUSES), MAX_TOKENS, of=len(profile.launches))


@cache
def profile_and_launch(report: Path, kernel: str) -> tuple[Profile, Launch]:
    """The report, and the launch that the sample is about."""
    from keet.report import read_profile

    profile = read_profile(report)
    return profile, next(one for one in profile.launches if one.name.function == kernel)


def agent_explanation(sample: Sample, variant: str, folder: Path | None) -> str:
    path = explanation_file(sample.name, variant, folder or Path())
    made = f"keet explain {sample.report(variant)} --model MODEL --format markdown -o {path}"
    if folder is None:
        raise UsageError(f"the condition agent needs --explanations DIR; fill it with: {made}")
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"there is no {path}; make it with: {made}") from None
    except (OSError, ValueError) as problem:
        raise UsageError(f"{path} cannot be read ({problem}); make it again with: {made}") from None
    if not text.strip():  # would be the condition none under another name
        raise UsageError(f"{path} is empty; make it again with: {made}")
    return _REPORT_PATH.sub(r"\1", text)


def explanation_file(name: str, variant: str, folder: Path) -> Path:
    return folder / (f"{name}.md" if variant == "slow" else f"{name}.{variant}.md")


def explanation_digests(reports: Iterable[str], folder: Path) -> dict[str, str]:
    """The first digits of the sha256 of each explanation of these reports (`gas_state/slow`), so
    that anybody can check which explanations a run used."""
    named = (report.partition("/") for report in reports)
    files = (explanation_file(name, variant, folder) for name, _, variant in named)
    return {file.stem: hashlib.sha256(file.read_bytes()).hexdigest()[:12] for file in files}


def source_files(sample: Sample, variant: str) -> dict[str, str]:
    """Files by name: the variant first, then headers of its folder. The files with the checks and
    with the planted cause are left out."""
    return dict(_with_includes(sample.source(variant), set()))


def _with_includes(path: Path, seen: set[str]) -> Iterator[tuple[str, str]]:
    seen.add(path.name)
    text = path.read_text(encoding="utf-8")
    yield path.name, text
    for name in _INCLUDE.findall(text):
        header = path.parent / name
        if header.name == name and name not in seen and header.is_file():
            yield from _with_includes(header, seen)


def numbered_source(sample: Sample, variant: str) -> str:
    """Each file under its name, with line numbers."""
    fence = "```cuda" if sample.language == "cuda" else "```python"
    files = source_files(sample, variant).items()
    return "\n\n".join(f"{name}:\n{fence}\n{numbered(text)}\n```" for name, text in files)


def numbered(text: str) -> str:
    lines = text.splitlines()
    width = len(str(len(lines)))
    return "\n".join(f"{i:>{width}}  {line}".rstrip() for i, line in enumerate(lines, 1))
