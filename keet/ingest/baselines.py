"""Named baselines: snapshots in `.keet/baselines/NAME/`, one for each run.

The folder is that of the project: the nearest `.keet` up to the repository's root. Outside of a
repository it lies here.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from keet.errors import NotAvailable, UsageError, one_line
from keet.ingest.snapshot import SUFFIX, write_snapshot
from keet.profile import Profile

_STALE = 3600.0
"""Seconds after which nobody is writing it any more."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Baseline(NamedTuple):
    """One that was saved."""

    name: str
    runs: tuple[Path, ...]
    saved: float
    """When, in seconds since 1970."""


def _folder() -> Path:
    """In the project: from here up to the repository's root, and at the root where none is yet."""
    here = Path.cwd()
    places = [here]
    for place in here.parents:
        if (places[-1] / ".git").exists():
            break
        places.append(place)
    if not (places[-1] / ".git").exists():
        places = [here]
    known = (place / ".keet" for place in places)
    found = next((place for place in known if (place / "baselines").is_dir()), places[-1] / ".keet")
    return found / "baselines"


def save_baseline(name: str, profiles: Sequence[Profile]) -> Baseline:
    """A baseline of that name is replaced: whole, or not at all."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{one_line(name)!r} is no name for a baseline; use letters, digits, dot, dash and "
            "underscore"
        )
    _check_devices(profiles)
    folder = _folder()
    _tidy(folder)
    making = folder / f".{secrets.token_hex(8)}.partial"
    try:
        making.mkdir(parents=True)
        for number, profile in enumerate(profiles, 1):
            write_snapshot(profile, making / f"run_{number:02}{SUFFIX}")
        _swap(making, folder / name)
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise UsageError(f"{folder}: it can't be written ({reason}); make it writable") from None
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return find_baseline(name)


def _check_devices(profiles: Sequence[Profile]) -> None:
    names = sorted({d.name or "unnamed" for profile in profiles for d in profile.devices})
    if len(names) > 1:
        raise UsageError(
            f"runs of one baseline are of one GPU, these are of {' and '.join(names)}; "
            "save a baseline for each"
        )


def _tidy(folder: Path) -> None:
    """What a killed run left behind."""
    for left in folder.glob(".*.partial"):
        if time.time() - left.stat().st_mtime > _STALE:
            shutil.rmtree(left, ignore_errors=True)


def _swap(making: Path, place: Path) -> None:
    """A folder can't replace a full one in one step: the old one steps aside first."""
    aside = place.with_name(f".{secrets.token_hex(8)}.partial")
    if place.exists():
        place.rename(aside)
    making.rename(place)
    shutil.rmtree(aside, ignore_errors=True)


def list_baselines() -> list[Baseline]:
    folder = _folder()
    if not folder.is_dir():
        return []
    names = sorted(entry.name for entry in os.scandir(folder) if _NAME.fullmatch(entry.name))
    found = [_baseline(folder / name) for name in names]
    return [baseline for baseline in found if baseline.runs]


def _baseline(place: Path) -> Baseline:
    runs = tuple(sorted(place.glob(f"*{SUFFIX}")))
    return Baseline(place.name, runs, place.stat().st_mtime if place.exists() else 0.0)


def find_baseline(name: str) -> Baseline:
    known = {baseline.name: baseline for baseline in list_baselines()}
    if name in known:
        return known[name]
    have = f"there are {', '.join(known)}" if known else "there are none yet"
    raise NotAvailable(
        f"there is no baseline {one_line(name)!r}, {have}; "
        "save one with: keet baseline save NAME REPORT"
    )


def remove_baseline(name: str) -> None:
    find_baseline(name)
    shutil.rmtree(_folder() / name)
