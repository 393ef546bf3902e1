"""The function `keet.read_profile`."""

from __future__ import annotations

from keet import ingest
from keet.api.inputs import StrPath
from keet.profile import Profile


def read_profile(
    path: StrPath, *, source: StrPath | None = None, run_table: StrPath | None = None
) -> Profile:
    """Read a report, an export or a snapshot. The format is detected from the content.

    >>> import keet
    >>> profile = keet.read_profile("tests/data/reports/tour_full.ncu-rep")
    >>> profile
    <Profile tour_full.ncu-rep: 3 launches on NVIDIA H200>
    >>> profile[1]
    <Launch 1: transpose_tiles<float, 32>, grid 64×64, block 32×8, 12.26 us>
    >>> profile[1].get("duration")
    Quantity(value=12256.0, unit='ns')
    >>> [launch.kernel for launch in profile]
    ['transpose_rows', 'transpose_tiles<float, 32>', 'normalise']

    Args:
        path: a `.ncu-rep` or `.ncu-repz`, an export of ncu, or a keet snapshot.
        source: folder with the sources, if the report does not embed them.
        run_table: times of the whole run; by default the run table beside the report
            (`app.run.json` of `app.ncu-rep`).

    Raises:
        keet.IngestError: names the file, what is wrong and what to do. A returned profile has all
            launches of the file. Launches are decoded when they are first used; a damaged launch
            raises then.
    """
    return ingest.read_profile(path, source=source, run_table=run_table)
