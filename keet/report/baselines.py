"""Saves and finds named baselines: snapshots in `.keet/baselines/NAME/VERSION/`, one per run.

Every save creates a new version. The file `current` next to the versions names the current one and
is replaced by one rename: a save that is killed, or that runs at the same time as another, leaves
either the old or the new version, never a mix. Baselines of older versions of keet have their
snapshots in `NAME/` itself.

The folder is the nearest existing `.keet` between the working folder and the repository's root;
outside of a repository, the one in the working folder.
"""

from __future__ import annotations

import re
import secrets
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from keet.errors import NotAvailable, UsageError, one_line, reason_of
from keet.files import replacing_text
from keet.profile import Profile
from keet.report.snapshot import SUFFIX, write_snapshot

_STALE = 3600.0
"""Seconds after which an unfinished save is considered dead."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_VERSION = re.compile(r"[0-9a-f]{16}")
_CURRENT = "current"
_READS = 100
"""Attempts to list a baseline while other saves keep replacing it."""


class Baseline(NamedTuple):
    """A saved baseline."""

    name: str
    runs: tuple[Path, ...]
    saved: float
    """Time of the save in seconds since 1970."""


def _folder() -> Path:
    """The nearest existing folder up to the repository's root; if there is none, at the root."""
    here = Path.cwd()
    places = [here]
    for place in here.parents:
        if (places[-1] / ".git").exists():
            break
        places.append(place)
    if not (places[-1] / ".git").exists():
        places = [here]
    folders = [place / ".keet/baselines" for place in places]
    return next((folder for folder in folders if folder.is_dir()), folders[-1])


def name_for(name: str, profile: Profile) -> str:
    """With the GPU of a report for `{gpu}`: times of two GPUs can't be compared."""
    gpu = re.sub("[^A-Za-z0-9]+", "-", profile.launches[0].device.name or "unknown").strip("-")
    return name.replace("{gpu}", gpu)


def save_baseline(name: str, profiles: Sequence[Profile]) -> Baseline:
    """Save a baseline. One of the same name is replaced atomically."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{one_line(name)!r} is not a valid name for a baseline; use letters, digits, dot, "
            "dash and underscore"
        )
    _check_devices(profiles)
    folder = _folder()
    _tidy(folder)
    making = folder / f".{secrets.token_hex(8)}.partial"
    try:
        making.mkdir(parents=True)
        for number, profile in enumerate(profiles, 1):
            write_snapshot(profile, making / f"run_{number:02}{SUFFIX}")
        return _publish(making, folder / name)
    except OSError as problem:
        reason = reason_of(problem)
        raise UsageError(f"{folder}: it can't be written ({reason}); make it writable") from None
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _publish(making: Path, place: Path) -> Baseline:
    """Make the finished folder the current version. Raises OSError."""
    place.mkdir(exist_ok=True)
    before = _version_folder(place)
    version = place / secrets.token_hex(8)
    # Listed before the rename: from then on another save may replace this version.
    runs = tuple(version / run.name for run in _snapshots(making))
    making.rename(version)
    with replacing_text(place / _CURRENT) as write:
        write(f"{version.name}\n")
    _remove(before, place)
    return Baseline(place.name, runs, time.time())


def _remove(version: Path, place: Path) -> None:
    """Remove the runs of an outdated version; of an older keet's baseline, those in the place."""
    if version != place:
        shutil.rmtree(version, ignore_errors=True)
        return
    for run in _snapshots(place):
        with suppress(OSError):
            run.unlink()


def _check_devices(profiles: Sequence[Profile]) -> None:
    names = sorted({d.name or "unnamed" for profile in profiles for d in profile.devices})
    if len(names) > 1:
        raise UsageError(
            f"all runs of a baseline must be from one GPU, and these are from "
            f"{' and '.join(names)}; save one baseline per GPU"
        )


def _tidy(folder: Path) -> None:
    """Remove what killed or concurrent saves left behind."""
    halves = [path for path in _entries(folder) if _is_partial(path)]
    inner = [path for place in _entries(folder) for path in _entries(place)]
    for left in [*halves, *filter(_is_left, inner)]:
        with suppress(OSError):  # another save tidies at the same time
            if time.time() - left.stat().st_mtime > _STALE:
                shutil.rmtree(left) if left.is_dir() else left.unlink()


def _is_partial(path: Path) -> bool:
    return path.name.startswith(".") and path.name.endswith(".partial")


def _is_left(path: Path) -> bool:
    """Whether a path in a baseline's folder is left over: half-written, or not the current version.
    Callers check its age, since a save may be about to make it current."""
    if _is_partial(path):
        return True
    current = _version_folder(path.parent)
    if current == path.parent or not current.is_dir():  # `current` can't be read, or is damaged
        return False
    is_run = path.name.endswith(SUFFIX)  # of an older keet
    return is_run or bool(_VERSION.fullmatch(path.name) and current != path)


def list_baselines() -> list[Baseline]:
    places = sorted(path for path in _entries(_folder()) if _NAME.fullmatch(path.name))
    return [baseline for place in places if (baseline := _baseline(place)).runs]


def _baseline(place: Path) -> Baseline:
    """Without runs if there is none. If another save replaced the version while its runs were
    listed, they are listed again."""
    for _ in range(_READS):
        version = _version_folder(place)
        runs = _snapshots(version)
        if _version_folder(place) == version:
            break
    return Baseline(place.name, tuple(runs), _changed(place / _CURRENT) or _changed(place))


def _changed(path: Path) -> float:
    """Time of the last change in seconds since 1970; 0 if the path does not exist."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _version_folder(place: Path) -> Path:
    """The folder with the runs: the current version, or `place` itself for an older keet's."""
    try:
        name = (place / _CURRENT).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return place
    return place / name if _VERSION.fullmatch(name) else place


def _snapshots(folder: Path) -> list[Path]:
    return sorted(path for path in _entries(folder) if path.name.endswith(SUFFIX))


def _entries(folder: Path) -> list[Path]:
    """Empty if the folder is gone: another process may have replaced it just now."""
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def find_baseline(name: str) -> Baseline:
    known = {baseline.name: baseline for baseline in list_baselines()}
    if name in known:
        return known[name]
    if _NAME.fullmatch(name) and (_folder() / name / _CURRENT).exists():
        raise NotAvailable(
            f"the baseline {name} is damaged: its file {_CURRENT!r} names a missing version; "
            f"restore that file, or save it again: keet baseline save {name} REPORT"
        )
    have = f"saved baselines: {', '.join(known)}" if known else "none is saved yet"
    raise NotAvailable(
        f"there is no baseline {one_line(name)!r}; {have}; "
        "save one with: keet baseline save NAME REPORT"
    )


def remove_baseline(name: str) -> None:
    """Removed by one rename, so that nobody compares with half a baseline."""
    find_baseline(name)
    folder = _folder()
    aside = folder / f".{secrets.token_hex(8)}.partial"
    (folder / name).rename(aside)
    shutil.rmtree(aside, ignore_errors=True)
