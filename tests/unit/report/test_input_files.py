"""Finding sources by the end of the path that the compiler recorded."""

from pathlib import Path

import pytest

from keet.errors import UsageError
from keet.report import read_profile
from keet.report.input.files import SourceFolder
from tests.conftest import REPORTS, TESTS


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_file_with_the_longest_common_path_end_is_taken(tmp_path: Path) -> None:
    """Of two equally good ones none is."""
    for name, text in {"a/src/k.cu": "right", "b/k.cu": "wrong", ".git/src/k.cu": "hidden"}.items():
        write(tmp_path, name, text)
    folder = SourceFolder(tmp_path)
    assert folder.text_of("/build/a/src/k.cu") == "right"
    assert folder.text_of("C:\\build\\a\\src\\k.cu") == "right"
    assert folder.text_of("/build/other.cu") is None
    write(tmp_path, "a/k.cu", "two")
    assert SourceFolder(tmp_path).text_of("/build/k.cu") is None


def test_links_out_of_the_folder_are_not_followed_and_a_missing_one_is_refused(
    tmp_path: Path,
) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    write(outside, "k.cu", "secret")
    root.mkdir()
    (root / "k.cu").symlink_to(outside / "k.cu")
    (root / "more").symlink_to(outside)
    assert SourceFolder(root).text_of("/x/k.cu") is None
    with pytest.raises(UsageError, match="no such folder"):
        SourceFolder(tmp_path / "none")


def test_a_report_without_embedded_sources_uses_the_folder(profile_of) -> None:
    name = "zoo.ncu-repz"
    assert not any(profile_of(name).launches[0].source_files.values())
    found = read_profile(REPORTS / name, source=TESTS / "data" / "programs").launches[0]
    texts = {path: text for path, text in found.source_files.items() if text}
    assert any(path.endswith("zoo.cu") and "fp64_chain" in text for path, text in texts.items())
