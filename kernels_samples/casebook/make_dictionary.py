"""How the dictionary of packed snapshots was made: from a few typical launches, without source.

    python -m kernels_samples.casebook.make_dictionary SNAPSHOT...

It ran once. Snapshots that are packed with a dictionary can't be read without it, so it refuses to
replace the one that keet ships.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from keet.report import read_profile
from keet.report.input import zstd
from keet.report.snapshot import MARK, VERSION, _launch_document, packed_document

TARGET = Path(zstd.__file__).with_name("snapshot.dict.zst")


def main(paths: list[str]) -> int:
    if TARGET.exists() or not paths:
        sys.stderr.write(f"{TARGET.name} exists, or no snapshot was named\n")
        return 1
    texts = [_text(Path(path)) for path in paths]
    raw = zstd.zstd.ZstdDict(b"".join(texts), is_raw=True)
    made = zstd.zstd.finalize_dict(raw, texts, sum(map(len, texts)) + 200_000, 22)
    TARGET.write_bytes(zstd.zstd.compress(made.dict_content, options=zstd._PACKED))
    sys.stdout.write(f"dictionary {made.dict_id}: {TARGET.stat().st_size:,} bytes\n")
    return 0


def _text(path: Path) -> bytes:
    profile = read_profile(path)
    document = {
        MARK: VERSION,
        "provenance": profile.provenance._replace(snapshot=None)._asdict(),
        "launches": [_launch_document(launch) for launch in profile.launches[:1]],
    }
    for launch in document["launches"]:
        launch["source_files"] = dict.fromkeys(launch["source_files"])
    return json.dumps(packed_document(document), ensure_ascii=False, separators=(",", ":")).encode()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
