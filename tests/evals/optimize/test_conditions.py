"""What the prompt of each condition carries."""

from pathlib import Path

import pytest

from evals.optimize.conditions import CONDITIONS, EXPORT_TOKENS, NAMES, ConditionName
from keet.evidence import Sentence
from keet.formatting import guess_tokens
from keet.optimize.prompt import Facts, Left, PromptFacts, Tried, build_prompt
from keet.optimize.runners import ProfileOutcome
from tests.unit.optimize.bench import make_source, task_of

ADVICE = "how much work"
AMOUNTS, LIMITS, DIFF, LEFT = "AMOUNTS-1", "LIMITS-1", "DIFF-1", "much-left"
DETAILS = """\
[7] app@127.0.0.1
  fill(float *) (8, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 9.0
    Section: Command line profiler metrics
    ---------- ----------- ------------
    one.metric                        1
    Section: GPU Speed Of Light Throughput
    Metric Name       Metric Unit Metric Value
    DRAM Throughput             %        12.34

  step(float *, int) (8, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 9.0
    Section: GPU Speed Of Light Throughput
    DRAM Throughput             %        56.78
"""
LINES = """\
"Kernel Name","fill(float *)"
"#","Address","Source","Warp Stall Sampling (All Samples)","Stall"
"3","","a[i] = 0;","10","2"
"Kernel Name","step(float *, int)"
"#","Address","Source","Warp Stall Sampling (All Samples)","Stall"
"7","","float x = a[i], y;","30","2"
"8","","if (x > ""0"") x += b[i];","90","2"
"9","","}","0","0"
"""


@pytest.fixture
def facts(tmp_path: Path) -> PromptFacts:
    source = make_source(tmp_path, Path("/nowhere"))
    left = Left(40.0, True, Sentence("much-left"))
    now = Facts("- 90.0%: step(float*, int)\n- 10.0%: fill(float*)", AMOUNTS, LIMITS, left)
    tried = Tried(1, "slower", "the time is 3 % longer", "tiles", "", "+TIME=3", DIFF)
    wrong = Tried(2, "wrong", "the check failed", "half", "value 3 differs", "+VALUE=1", "")
    outcome = ProfileOutcome("before.ncu-rep", "")
    return PromptFacts(
        *(task_of(source), 3, "H200", source, {}, now, 1.0, [tried, wrong], "# Answer"),
        *(outcome, tmp_path / "before"),
    )


def prompt(name: ConditionName, facts: PromptFacts) -> str:
    return CONDITIONS[name].prompt(facts)


@pytest.mark.parametrize("name", NAMES)
def test_what_all_conditions_have(name: ConditionName, facts: PromptFacts) -> None:
    text = prompt(name, facts)
    for part in (ADVICE, "90.0%: step", "3 % longer", "value 3 differs", "TIME=2000", "# Answer"):
        assert part in text
    assert "keet" not in text.replace(str(facts.folder), "")
    last = facts._replace(tried=facts.tried[:1])
    assert (DIFF in prompt(name, last)) == name.startswith("keet")


def test_what_they_have_of_the_profile(facts: PromptFacts) -> None:
    (facts.files.with_name("before.details.txt")).write_text(DETAILS)
    every = (AMOUNTS, LIMITS, LEFT, "56.78")
    found = {name: {part for part in every if part in prompt(name, facts)} for name in NAMES}
    assert found == {
        "times": set(),
        "ncu": {"56.78"},
        "keet-without-amounts": {LIMITS},
        "keet": {AMOUNTS, LIMITS, LEFT},
    }
    assert prompt("keet", facts) == build_prompt(facts)


def test_pages_of_ncu(facts: PromptFacts) -> None:
    """Kernels by time, each with its lines; its sections before single metrics."""
    (facts.files.with_name("before.details.txt")).write_text(DETAILS)
    (facts.files.with_name("before.source.csv")).write_text(LINES)
    text = prompt("ncu", facts)
    order = ["## step(", '75.0%  8: if (x > "0")', "25.0%  7:", "56.78"]
    order += ["## fill(", "100.0%  3:", "12.34", "one.metric"]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert "9: }" not in text


def test_pages_that_are_long_or_missing(facts: PromptFacts) -> None:
    rows = "".join(f"    metric number {number}  %  {number}\n" for number in range(9000))
    facts.files.with_name("before.details.txt").write_text(DETAILS + rows)
    text = prompt("ncu", facts)
    without = guess_tokens(prompt("times", facts))
    assert guess_tokens(text) <= without + EXPORT_TOKENS + 100
    assert "## step(" in text
    assert "## fill(" not in text
    failed = facts._replace(profile=ProfileOutcome(None, "ncu is not on the PATH"))
    assert "not on the PATH" in prompt("ncu", failed)
    partly = ProfileOutcome("before.ncu-rep", "", "details.txt: unknown option")
    assert "details.txt: unknown option" in prompt("ncu", facts._replace(profile=partly))
