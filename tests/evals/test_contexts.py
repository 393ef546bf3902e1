"""What each condition shows of a profile."""

import hashlib
from pathlib import Path

import pytest

from evals.contexts import context, explanation_digests, numbered_source, source_files
from keet.cli import main
from keet.errors import UsageError
from kernels_samples.samples import HERE, Sample, load_sample, load_samples


def sample(name: str) -> Sample:
    return load_sample(HERE / name)


def test_a_condition_without_profile_adds_nothing() -> None:
    assert context(sample("gas_state"), "slow", "blind") == ""
    assert context(sample("gas_state"), "slow", "none") == ""


def test_raw_pages() -> None:
    for each in load_samples():
        for variant in each.variants:
            page = context(each, variant, "raw")
            assert each.kernel in page
            assert "Section: GPU Speed Of Light" in page
    with pytest.raises(UsageError, match=r"gas_state\.step9\.txt; add to it: ncu --import"):
        context(sample("gas_state"), "step9", "raw")


@pytest.mark.parametrize("name", ["gas_state", "row_layers"])  # row_layers has two launches
def test_keets_context_is_what_the_command_prints(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["context", str(sample(name).report("slow"))]) == 0
    assert context(sample(name), "slow", "keet") == capsys.readouterr().out


def test_the_agents_explanation(tmp_path: Path) -> None:
    text = "## keet: `kernels_samples/gas_state/slow.ncu-repz`\nsaid\n"
    (tmp_path / "gas_state.md").write_text(text, encoding="utf-8")
    said = context(sample("gas_state"), "slow", "agent", tmp_path)
    assert said == "## keet: `slow.ncu-rep`\nsaid\n"
    with pytest.raises(UsageError, match=r"no .*key_count\.md; make it with: keet explain .*key_c"):
        context(sample("key_count"), "slow", "agent", tmp_path)
    (tmp_path / "key_count.md").write_text(" \n\t\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"key_count\.md is empty; make it again with: keet expl"):
        context(sample("key_count"), "slow", "agent", tmp_path)
    with pytest.raises(UsageError, match="needs --explanations DIR"):
        context(sample("key_count"), "slow", "agent")


def test_explanations_are_known_by_what_sha256sum_says(tmp_path: Path) -> None:
    (tmp_path / "gas_state.md").write_bytes(b"said\r\n")
    (tmp_path / "gas_state.fast.md").write_bytes(b"more")
    found = explanation_digests(["gas_state/slow", "gas_state/fast"], tmp_path)
    assert found == {
        "gas_state": hashlib.sha256(b"said\r\n").hexdigest()[:12],
        "gas_state.fast": hashlib.sha256(b"more").hexdigest()[:12],
    }


def test_sources_come_with_their_headers_and_nothing_that_gives_the_answer() -> None:
    for each in load_samples():
        allowed = {each.source("slow").name, "problem.h", "state_math.h"}
        files = source_files(each, "slow")
        assert set(files) <= allowed
        assert each.truth.fix not in "".join(files.values())
    names = list(source_files(sample("gas_state"), "slow"))
    assert names == ["slow.cu", "problem.h", "state_math.h"]


def test_lines_are_numbered_as_the_report_counts_them() -> None:
    text = numbered_source(sample("tap_filter"), "slow")
    assert "\n18          sum += coefficients[k] * samples[threadIdx.x + k];" in text
    assert "\n 1  #include" in text
