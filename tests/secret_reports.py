"""Reports whose recorded command line and NVTX ranges contain secrets."""

from __future__ import annotations

from pathlib import Path

from keet.ingest.ncu_rep.container import EntryKind
from tests import encode
from tests.conftest import REPORTS
from tests.hostile_reports import changed, inside, nvtx_of, with_changes
from tests.kept_reports import unpacked

VALUES = {
    "--api-key=": "Zq7-first-Value",
    "--password ": "Zq7second_value",
    "--pin ": "73519064",
    "DB_PASSWORD=": "Zq7third.value",
    "--db-url postgres://bob:": "Zq7fourth",
    "https://host/?access_token=": "Zq7fifthValue",
}
"""What precedes each secret in the command line, and the secret."""
NVTX = "Zq7nvtxValue"
SECRETS = (*VALUES.values(), NVTX)


def command_line(ncu: str = "/opt/ncu -o tour --set basic") -> str:
    values = dict(VALUES)
    prefix = f"DB_PASSWORD={values.pop('DB_PASSWORD=')}"
    words = [name + value for name, value in values.items()]
    url = words.index(f"--db-url postgres://bob:{VALUES['--db-url postgres://bob:']}")
    words[url] += "@host/db"
    return f"{ncu} env {prefix} ./tour --tokens 4096 {' '.join(words)} --rounds 3"


def with_secrets(data: bytes, line: str | None = None) -> bytes:
    """The report with `line` as ncu's command line, and with a range that contains a secret."""
    nvtx = nvtx_of(unpacked(REPORTS / "nvtx.ncu-repz"))
    name = lambda _: f"request?token={NVTX}".encode()  # noqa: E731
    state = changed(nvtx, {2: inside({2: inside({3: inside({1: name})})})})
    line = command_line() if line is None else line
    return with_changes(
        data,
        {3: inside({11: lambda _: line.encode()})},
        {EntryKind.KERNEL: lambda entry: entry + encode.chunk(21, state)},
    )


def write_reports(folder: Path) -> list[Path]:
    """Two reports of different content; the second was made with `keet profile`."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [command_line(), command_line("/opt/ncu --export /tmp/.keet-profile-ab12/r.ncu-rep")]
    names = ("tour_lines", "tour_lines")
    paths = [folder / f"size_{1 << number}.ncu-rep" for number in range(len(lines))]
    for path, line, name in zip(paths, lines, names, strict=True):
        path.write_bytes(with_secrets(unpacked(REPORTS / f"{name}.ncu-repz"), line))
    return paths
