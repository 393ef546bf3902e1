"""An explanation with a model's part: shown whole, marked as the model's, and inert."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from keet.errors import one_line
from keet.explanation.analyst import Explanation, explain
from keet.explanation.statement import (
    Authorship,
    Cause,
    Dropped,
    Edit,
    Hypothesis,
    Statement,
    Usage,
)
from keet.ingest import read_profile
from keet.render.console import to_text
from keet.render.documents import json_text
from keet.render.explain import explain_view
from keet.render.explain_documents import ExplainDocument, explain_document
from keet.render.explain_markdown import explain_markdown
from keet.render.statement_text import usage_text

SAMPLES = Path("kernels_samples")
USAGE = Usage(3, 1, 8214, 1022, 0.0213, 12.4)
AUTHOR = Authorship("openai:gpt-5", USAGE, None, "/tmp/keet/run.jsonl")

DIFF = """\
 struct Spectrum {
-    float mass[kClasses];
+    float* mass;  // [class][thread of the block]
-    __device__ float& operator[](int k) { return mass[k]; }
+    __device__ float& operator[](int k) { return mass[k * kThreads]; }
 };
"""
PHYSICS = Statement(
    purpose="One step of cloud physics in each air column: sunlight, condensation, and drops "
    "that grow, break up and fall between size classes.",
    mapping="One thread walks one column from the top down; its drop spectrum is an array of its "
    "own, and neighbouring threads work on neighbouring columns.",
    hypotheses=(
        Hypothesis(
            "`drops` is indexed with values known only at run time, so it can't stay in registers.",
            "local_memory_spill",
            "confirmed",
            "98.47 % of the sectors of L1 are local memory [E20], nearly all of them at the lines "
            "that index `drops`.",
            ("E20", "E15"),
        ),
        Hypothesis(
            "The many `expf` and `powf` saturate the special-function pipe.",
            "sfu_bound",
            "refuted",
            "The XU pipe is busy for 0.788 % of the time [E44].",
            ("E44",),
        ),
        Hypothesis(
            "Columns with little cloud end early and leave warps half empty.",
            "warp_divergence",
            "inconclusive",
            "The report has the average of active threads only.",
            ("E81",),
        ),
    ),
    summary="The spectrum of drops lives in local memory because `regime.mode` and `regime.hop` "
    "are computed per cell; every growth and break-up step reads and writes it through L2, which "
    "is at 82.29 % of its peak [E22], while arithmetic idles.",
    causes=(
        Cause(
            "local_memory_spill",
            "`Spectrum::mass` is a private array, and `k + regime.hop` differs from cell to cell: "
            "the compiler has no register to name, and puts it into local memory. The launch "
            "bounds of 12 blocks are not what spills: there is no other local access.",
            ("E20",),
        ),
        Cause(
            "occupancy_limited_registers",
            "`__launch_bounds__(kThreads, 12)` holds the theoretical occupancy at 75 % [E61]; once "
            "the array has left local memory fewer warps would do.",
            ("E61",),
        ),
    ),
    edits=(
        Edit(
            "local_memory_spill",
            "/home/someone/column_physics/slow.cu",
            27,
            "Keep the spectrum in shared memory, one column a thread: the stride of `kThreads` "
            "puts the threads of a warp into different banks.",
            DIFF,
            "Shared memory grows with `kClasses`; fewer blocks fit on an SM.",
            "Local sectors [E15] go to zero, and bank conflicts stay there [E7].",
        ),
        Edit(None, None, None, "Fuse `grow_drops` and `break_drops`.", "", "", ""),
    ),
    dropped=(
        Dropped("edits[0].risk", "about 40 KB a block", "nothing in the evidence has that unit"),
    ),
    numbers=5,
)  # fmt: skip
PRODUCT = Statement(
    purpose="c = a · b of half-precision matrices, accumulated in float.",
    mapping="A block of 256 threads owns a tile of c, each warp a part of it, each thread 8 rows "
    "and 8 columns.",
    hypotheses=(
        Hypothesis("Halves are widened to float and multiplied on the FMA pipe.", "no_tensor_core",
                   "confirmed", "The tensor pipe idles at 0.00104 % [E73].", ("E73", "E68")),
    ),
    summary="A good float kernel for data that the tensor cores take as they are.",
    causes=(
        Cause("no_tensor_core", "`widen` converts each half on its way into shared memory; the "
              "inner loop is a float outer product.", ("E68",)),
    ),
    edits=(
        Edit("no_tensor_core", "slow.cu", 78, "Replace the outer product by `mma.sync`.",
             "wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;\n"
             "wmma::load_matrix_sync(a, tile_a, kPitch);\nwmma::mma_sync(sum, a, b, sum);",
             "The sums are added in another order.", "The tensor pipe is busy, FMA [E68] idles."),
    ),
    dropped=(),
    numbers=2,
)  # fmt: skip


@cache
def explained(sample: str) -> Explanation:
    profile = read_profile(SAMPLES / sample / "slow.ncu-rep")
    return explain(profile, profile.launches, 5)


CITED = {
    "E7": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "E15": "local_sectors",
    "E20": "local_share",
    "E22": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "E44": "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_elapsed",
    "E61": "sm__maximum_warps_per_active_cycle_pct",
    "E68": "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "E73": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "E81": "smsp__thread_inst_executed_per_inst_executed.ratio",
}
"""What the ids in the statements above stand for: those of the report are numbered as it is read."""


def with_own_ids(told: Any, ids: dict[str, str]) -> Any:
    """A statement, or a part of one, that cites the report's own ids."""
    if isinstance(told, str):
        return re.sub(r"\bE\d+\b", lambda found: ids.get(CITED.get(found[0], ""), found[0]), told)
    if isinstance(told, tuple):
        parts = [with_own_ids(part, ids) for part in told]
        return type(told)(*parts) if hasattr(told, "_fields") else tuple(parts)
    return told


def with_model(
    sample: str, statement: Statement | None = PHYSICS, author: Authorship = AUTHOR
) -> Explanation:
    told = explained(sample)
    (each,) = told.launches
    ids = {piece.metric: piece.id for piece in each.evidence}
    each = each._replace(statement=with_own_ids(statement, ids))
    return told._replace(launches=(each,), author=author)


def terminal(explanation: Explanation, width: int = 80) -> str:
    return to_text(explain_view(explanation, width), width)


def document(explanation: Explanation) -> dict:
    text = json_text(explain_document(explanation))
    ExplainDocument.model_validate_json(text)
    return json.loads(text)


# --- as people and programs see it


def test_terminal(golden: Callable[[str, str], None]) -> None:
    golden("explain.model.column_physics.80.txt", terminal(with_model("column_physics")))
    golden("explain.model.half_dense.80.txt", terminal(with_model("half_dense", PRODUCT)))


def test_markdown(golden: Callable[[str, str], None]) -> None:
    golden("explain.model.column_physics.md", explain_markdown(with_model("column_physics")))


def test_json(golden: Callable[[str, str], None]) -> None:
    told = document(with_model("column_physics"))
    (launch,) = told["launches"]
    launch["evidence"] = {}  # the analyst's golden has that
    golden("explain.model.column_physics.json", json.dumps(told, indent=1, ensure_ascii=False))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_nothing_is_wider_than_the_terminal(width: int) -> None:
    text = terminal(with_model("column_physics"), width)
    assert max(map(len, text.splitlines())) <= width


# --- the contract


def test_the_two_parts_are_told_apart() -> None:
    told = document(with_model("column_physics"))
    (launch,) = told["launches"]
    assert told["author"] == "model:openai:gpt-5"
    assert (told["problem"], told["transcript"]) == (None, "/tmp/keet/run.jsonl")
    assert [finding["why"] for finding in launch["findings"]] == [PHYSICS.causes[0].text]
    causes = launch["model"]["causes"]
    assert [cause["raised_by_analyst"] for cause in causes] == [True, False]
    verdicts = [guess["verdict"] for guess in launch["hypotheses"]]
    assert verdicts == ["confirmed", "refuted", "inconclusive"]
    assert launch["model"]["edits"][0]["code"] == DIFF


def test_numbers_of_both_parts_are_counted() -> None:
    own = document(explained("column_physics"))["grounding"]
    both = document(with_model("column_physics"))["grounding"]
    assert both["numbers"] == own["numbers"] + 5
    assert both["verified"] == own["verified"] + 5
    assert both["dropped"] == [
        "launch 0, edits[0].risk: “about 40 KB a block” (nothing in the evidence has that unit)"
    ]


def test_a_cause_stands_below_its_finding() -> None:
    lines = [line.strip() for line in terminal(with_model("column_physics")).splitlines()]
    why = next(i for i, line in enumerate(lines) if line.startswith("why (model): "))
    assert why < next(i for i, line in enumerate(lines) if line.startswith("Looks good: "))


def test_a_cause_beyond_the_findings_has_no_forecast() -> None:
    told = with_model("column_physics")
    (each,) = told.launches
    (finding,) = each.findings[:1]
    small = replace(finding, id="occupancy_limited_registers")
    for minor, standing in (
        ((), "(not among keet's findings: no forecast): "),
        ((small,), "(by keet's account it would gain less than 10 % alone): "),
    ):
        one = told._replace(launches=(each._replace(minor=minor),))
        for text in (terminal(one, 160), explain_markdown(one)):
            assert standing in text


def test_the_cited_numbers_are_those_of_the_report() -> None:
    text = terminal(with_model("column_physics"))
    assert re.search(r"^  E\d+ +82\.29 %  L2 cache busy$", text, re.MULTILINE)
    named = set(re.findall(r"\bE\d+\b", text))
    listed = set(re.findall(r"^  (E\d+) ", text, re.MULTILINE))
    assert named == listed


def test_many_launches_say_which_claim_is_whose() -> None:
    told = with_model("column_physics")
    twice = told._replace(launches=told.launches * 2)
    assert "launch 0, edits[0].risk" in terminal(twice)


# --- without a model, or with half of one


def test_without_a_model_nothing_changes() -> None:
    told = explained("column_physics")
    plain = document(told)
    assert not {"problem", "transcript"} & set(plain)
    assert not {"hypotheses", "model"} & set(plain["launches"][0])
    assert "why" not in plain["launches"][0]["findings"][0]
    assert "odel" not in terminal(told)
    assert explain_markdown(told).endswith(", no model*\n")


def test_a_missing_part_costs_nothing_else() -> None:
    problem = "api.example.org can't be reached; check --base-url"
    author = AUTHOR._replace(usage=Usage(0, 0, 0, 0, None, 0.2), problem=problem, transcript=None)
    told = with_model("column_physics", None, author)
    as_json = document(told)
    assert (as_json["author"], as_json["problem"]) == ("analyst", problem)
    assert as_json["usage"]["cost"] == "unknown"
    assert as_json["launches"][0]["model"] is None
    assert as_json["launches"][0]["findings"][0]["why"] is None
    before, after = terminal(explained("column_physics")), terminal(told)
    assert after == before + f"The model's part is missing: {problem}\n"
    assert "**The model's part is missing:** api.example.org" in explain_markdown(told)


def test_an_incomplete_part_says_so() -> None:
    told = with_model("column_physics", PHYSICS, AUTHOR._replace(problem="the budget ran out"))
    assert "The model's part is incomplete: the budget ran out" in terminal(told)


def test_an_answer_that_was_all_stray() -> None:
    nothing = Statement("", "", (), "", (), (), PHYSICS.dropped, 0)
    told = with_model("column_physics", nothing)
    assert "Dropped, not borne out by the report:" in terminal(told)
    for heading in ("Expected", "Edits", "also sees", "cites", "code  "):
        assert heading not in terminal(told)
    assert explain_markdown(told).count("about 40 KB a block") == 1
    document(told)


@pytest.mark.parametrize(
    ("usage", "text"),
    [
        (USAGE, "m: 3 calls (1 more from the cache), 8,214 tokens in, 1,022 out, $0.021, 12 s"),
        (Usage(1, 0, 10, 2, None, 0.4, True), "m: 1 call, about 10 tokens in, 2 out (counted by keet), price unknown, 0 s"),
        (Usage(0, 3, 0, 0, None, 0.1), "m: no call (3 from the cache), 0 s"),
        (Usage(2, 0, 5, 5, 0.0, 1), "m: 2 calls, 5 tokens in, 5 out, $0.00, 1 s"),
        (Usage(2, 0, 5, 5, 0.00001, 1), "m: 2 calls, 5 tokens in, 5 out, under $0.0001, 1 s"),
        (Usage(2, 0, 5, 5, 12.345, 1), "m: 2 calls, 5 tokens in, 5 out, $12.35, 1 s"),
        (Usage(2, 0, 5, 5, float("nan"), 1), "m: 2 calls, 5 tokens in, 5 out, price unknown, 1 s"),
    ],
)  # fmt: skip
def test_usage(usage: Usage, text: str) -> None:
    assert usage_text(Authorship("m", usage, None, None)) == text


# --- texts by a stranger

HOSTILE = [
    "[bold red]all is well[/bold red] [/] [link=https://evil.example]here[/link]",
    "\x1b[2J\x1b[31mcleared\x07\r\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "```\n# out of the fence\n````\n~~~\n<script>alert(1)</script>",
    "\u202ereversed\u2066 and half a pair \ud800",
    "x" * 3000,
    "| a | b |\n| --- | --- |\n![image](https://evil.example/p.png) [E1](javascript:x)",
    ":boom: &lt;b&gt; $x$ @team #1 **bold** \\",
]


def hostile_statement(text: str) -> Statement:
    return Statement(
        text, text,
        (Hypothesis(text, text, "refuted", text, (text, "E1")),),
        text,
        (Cause("local_memory_spill", text, (text,)), Cause(text, text, ())),
        (Edit(text, text, 3, text, text, text, text),),
        (Dropped(text, text, text),),
        0,
    )  # fmt: skip


def hostile(text: str) -> Explanation:
    author = Authorship(text, USAGE, text, text)
    return with_model("column_physics", hostile_statement(text), author)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("width", [40, 80])
def test_hostile_texts_on_a_terminal(text: str, width: int) -> None:
    out = terminal(hostile(text), width)
    assert all(char == "\n" or char.isprintable() for char in out)
    if "[bold" in text:
        assert "[bold red]" in out
    code = [line for line in out.splitlines() if "│" in line]
    assert code
    assert all(len(line) <= width for line in code)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_in_markdown(text: str) -> None:
    """As a parser of Markdown reads it: text, and code in a block that it can't leave."""
    out = explain_markdown(hostile(text))
    assert all(line.isprintable() for line in out.splitlines())
    tokens = MarkdownIt("commonmark").enable("table").parse(out)
    kinds = {part.type for token in tokens for part in (token, *(token.children or ()))}
    assert not kinds & {"html_block", "html_inline", "link_open", "image", "code_block"}
    assert [token.tag for token in tokens if token.type == "heading_open"] == [
        "h2",
        "h3",
        "h4",
        "h4",
    ]
    (edit,) = [
        token.content for token in tokens if token.type == "fence" and "> " not in token.content
    ]
    lines = (one_line(line) for line in text.splitlines())
    assert edit.splitlines() == [line for line in lines if line]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_in_json(text: str) -> None:
    told = document(hostile(text))
    said = told["launches"][0]["model"]["summary"]
    assert said == text.encode("utf-8", errors="backslashreplace").decode("utf-8")


def test_a_long_sketch_is_cut_on_a_terminal_only() -> None:
    sketch = "\n".join(f"line_{n}();" for n in range(100))
    long = PHYSICS._replace(edits=(PHYSICS.edits[0]._replace(code=sketch),))
    told = with_model("column_physics", long)
    assert "... 60 more lines: see --format markdown" in terminal(told)
    assert "line_99();" not in terminal(told)
    assert "\nline_99();\n```\n" in explain_markdown(told)
