"""keet does not contradict itself, and a check that confirms anything would be noticed."""

from pathlib import Path

import pytest

from evals.consistency.__main__ import main, missed
from evals.consistency.check_output import Printed, check, texts_of_pair, texts_of_report
from kernels_samples.samples import HERE, report_of

pytestmark = pytest.mark.slow


def test_nothing_is_refuted_and_almost_all_confirmed() -> None:
    slow, fast = (report_of("matrix_flip", side) for side in ("slow", "fast"))
    texts = [*texts_of_report(slow), *texts_of_pair(slow, fast)]
    results = [check(text) for text in texts if isinstance(text, Printed)]
    assert [doubt for each in results for doubt in each.refuted] == []
    assert not missed(results)
    assert {each.form for each in results} >= {"explain", "context", "diff", "hotspots", "roofline"}
    assert all(each.numbers for each in results)
    changed = sum(each.changed for each in results)
    assert sum(each.changed_confirmed for each in results) <= 0.1 * changed
    wrong = check(texts[0]._replace(text="#0 flip: grid 257×1024, block 32×8, 1.02 ms\n"))
    assert [doubt.number for doubt in wrong.refuted] == ["257×1024"]
    assert missed([wrong])


def test_a_folder_of_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one.ncu-rep").write_bytes((HERE / "matrix_flip" / "slow.ncu-rep").read_bytes())
    (tmp_path / "broken.ncu-rep").write_bytes(b"no report")
    (tmp_path / "README.md").write_text("no report either")
    main(["--corpus", str(tmp_path), "--date", "2026-11-16"])
    page = capsys.readouterr().out
    assert "Measured on 2026-11-16." in page
    assert "broken.ncu-rep: " in page
    assert "| public reports | `hotspots` | 1 |" in page
