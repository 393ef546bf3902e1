"""Explanations with a model's part in all formats: answer first, marked as the model's, escaped."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from keet.diagnosis.claim import WorkClaim
from keet.diagnosis.claim_evaluation import EvaluatedClaim
from keet.documents.document import json_text
from keet.documents.explain import BY_MODEL, ExplainDocument
from keet.documents.finding import Forecast
from keet.documents.model_explanation import (
    Authorship,
    ModelExplanation,
    UnusedClaimDocument,
    UsageDocument,
)
from keet.errors import one_line
from keet.evidence import UNCHECKED, Prose, Reference, Sentence
from keet.evidence.free_numbers import Allowed
from keet.explanation.analyst import explain, explain_document
from keet.explanation.explanation_types import Explanation, LaunchExplanation
from keet.formats.html.blocks import reader
from keet.pages.blocks import (
    Anchors,
    Block,
    Code,
    Format,
    Notice,
    Part,
    Span,
    Text,
    Words,
    plain,
    spans,
)
from keet.pages.explain import Asked, explain_page
from keet.pages.launch import Shown
from keet.pages.model import _Statement, author_blocks, headline, model_section
from keet.pages.model_words import (
    OWN_WORDS,
    claim_notes,
    edit_status,
    marked_texts,
    model_words,
    not_confirmed,
    places_of,
    ranked_edits,
    standing,
    unused_notes,
    usage_text,
)
from keet.prose.reading import Names, read_prose
from keet.report import read_profile
from keet.units import Quantity
from tests.explain_pages import (
    cells_of,
    explain_blocks,
    explain_html,
    explain_markdown,
    explain_terminal,
    html_in,
    texts_of,
    words_of,
)
from tests.explained_reports import explained
from tests.json_documents import check_text
from tests.model_parts import cause, edit, said, usage
from tests.page_blocks import every_block
from tests.page_parts import html_blocks, page_tree, words
from tests.rows import each_row

SAMPLES = Path("kernels_samples")
USAGE = usage(3, 1, 8214, 1022, 0.0213, 12.4)
AUTHOR = Authorship("openai:gpt-5", USAGE, None, "/tmp/keet/run.jsonl")


PROBLEM = "`40` is a number outside of braces; write it as {name}"


def resolved_prose(sample: str, text: str) -> Prose:
    """A model's text with its references resolved against the report. Sentences that start with `!`
    are unchecked, regardless of the rules for numbers."""
    (each,) = explained(sample).launches
    names = Names((piece.slug, piece) for piece in each.view.ledger)
    return Prose(tuple(map(_judged, read_prose(text, names, Allowed()).sentences)))


def _judged(sentence: Sentence) -> Sentence:
    first, *others = sentence.parts
    if not isinstance(first, str) or not first.startswith("!"):
        return Sentence.of(sentence.parts)
    return Sentence.of((first[1:], *others), PROBLEM)


def change_of(sample: str, old: str, new: str) -> str:
    """A unified diff of the sample's source."""
    before = (SAMPLES / sample / "slow.cu").read_text(encoding="utf-8")
    assert old in before
    texts = [text.splitlines(keepends=True) for text in (before, before.replace(old, new, 1))]
    return "".join(difflib.unified_diff(*texts, "a/slow.cu", "b/slow.cu"))


@cache
def physics() -> ModelExplanation:
    def prose(text: str) -> Prose:
        return resolved_prose("column_physics", text)

    return said(
        summary=prose(
            "The spectrum of drops lives in local memory because `regime.mode` and `regime.hop` are "
            "computed per cell. Every growth and break-up step reads and writes it through L2, "
            "{l2_throughput_pct}, while arithmetic idles."
        ),
        purpose=prose("One step of cloud physics in each air column."),
        causes=(
            cause(
                "local_memory_spill",
                prose(
                    "`Spectrum::mass` is a private array, and `k + regime.hop` differs from cell to "
                    "cell: the compiler has no register to name, and puts it into local memory. The "
                    "launch bounds are not what spills: there is no other local access."
                ),
                prose("{local_share > 90 %}").sentences[0].references,
                "slow.cu:96",
            ),
            cause(
                "occupancy_limited_registers",
                prose(
                    "`__launch_bounds__` holds the occupancy down: {theoretical_occupancy_pct}. "
                    "!About 40 KB per block would be free."
                ),
                (), "slow.cu:120",
            ),
        ),
        objections=(
            cause(
                "local_memory_spill",
                prose("Registers alone do not help. The compiler spilled nothing: {spilling_requests}."),
                (), None, "the report has no count of spilled registers",
            ),
            cause("latency_bound", prose("The waits are for L2 and nothing else."), ()),
        ),
        edits=(
            edit(
                None, prose("Fuse `grow_drops` and `break_drops`."), "", (),
                "for (int k : classes) { grow(k); shed(k); }", "the old lines are not in slow.cu",
                "not checked", "", Prose(), Prose(),
            ),
            edit(
                "local_memory_spill",
                prose(
                    "Keep the spectrum in shared memory, one column per thread: the stride of "
                    "`kThreads` puts the threads of a warp into different banks."
                ),
                change_of(
                    "column_physics",
                    "    __device__ float& operator[](int k) { return mass[k]; }\n",
                    "    __device__ float& operator[](int k) { return mass[k * kThreads]; }\n",
                ),
                ("slow.cu:32",), "", None, "compiles", "registers 32 → 40, no spills",
                prose("Shared memory grows with `kClasses`; fewer blocks fit on an SM."),
                prose("Local sectors go to zero, now {local_sectors}."),
            ),
        ),
        sent_back=1,
    )  # fmt: skip


@cache
def leading() -> tuple[Explanation, ModelExplanation]:
    """An explanation whose headline is a model's claim, ranked before keet's own findings."""
    explanation = explained("column_physics")
    (each,) = explanation.launches
    first = each.findings[0]
    forecast = Forecast(1.4, 1.8, 2.2)
    claimed = replace(
        first, id="redundant_traffic", origin="model", forecast=forecast, cause_certainty="likely",
        text=Sentence.of(["The columns need 126 MB from DRAM; it reads 208.3 MB."]), advice=None, locations=(),
        amounts_by="model", keet_alone=Forecast(1.0, 1.2, 1.4),
    )  # fmt: skip
    floor = next(piece for piece in each.view.ledger if piece.slug == "duration")
    claim = EvaluatedClaim(
        claim=WorkClaim("redundant_traffic", "bytes", Quantity(126e6, "byte"), of="DRAM read"),
        supported=True, reason=Sentence("The columns are read twice."), gain=2.2, expected=1.8,
        forecast=forecast, evidence=(floor,), floor=Quantity(floor.value, floor.unit),
        least_time=floor, next_limiter="the LSU pipe", is_backed=True,
    )  # fmt: skip
    claimed_cause = cause(
        "redundant_traffic", resolved_prose("column_physics", "Each column is read again for sunlight."),
        (), "slow.cu:140", None, claim,
    )  # fmt: skip
    why = "The kernel does not access local memory."
    unused = UnusedClaimDocument(claim="bytes of local, needed 4 B", reason=why, evidence=())
    claimed_cause = replace(claimed_cause, unused_claims=(unused,))
    statement = replace(
        physics(), causes=(claimed_cause, *physics().causes), objections=(), leads=True
    )
    verdict = replace(
        each.verdict,
        headline=Sentence.of(["DRAM traffic: redundant traffic at slow.cu:140."]),
        by=BY_MODEL,
        analyst_headline=each.verdict.headline,
    )
    statement = statement.beside(["redundant_traffic", first.id])
    each = replace(each, verdict=verdict, findings=(claimed, first), model=statement)
    return explanation.attributed_to(AUTHOR, (each,)), statement


def with_model(
    sample: str, statement: ModelExplanation | None = None, author: Authorship = AUTHOR
) -> Explanation:
    explanation = explained(sample)
    (each,) = explanation.launches
    said = statement and statement.beside(finding.id for finding in each.findings)
    return explanation.attributed_to(author, (replace(each, model=said),))


def column_physics() -> Explanation:
    return with_model("column_physics", physics())


def blocks_of(statement: ModelExplanation, **how: Any) -> list[Block]:
    return explain_blocks(with_model("column_physics", statement), **how)


def told(statement: ModelExplanation, **how: Any) -> list[str]:
    return texts_of(blocks_of(statement, **how))


def document(explanation: Explanation) -> dict:
    text = json_text(explain_document(explanation))
    check_text(ExplainDocument, text)
    return json.loads(text)


def test_output(golden: Callable[[str, str], None]) -> None:
    explanation = column_physics()
    golden("explain.model.column_physics.80.txt", explain_terminal(explanation))
    golden("explain.model.leads.100.txt", explain_terminal(leading()[0], 100))
    verbose = explain_terminal(explanation, 100, verbose=True)
    golden("explain.model.column_physics.verbose.100.txt", verbose)
    golden("explain.model.column_physics.md", explain_markdown(explanation))
    printed = document(explanation)
    (launch,) = printed["launches"]
    launch["evidence"] = {}  # the golden without a model has it
    golden("explain.model.column_physics.json", json.dumps(printed, indent=1, ensure_ascii=False))


@each_row("width", [40, 60, 80, 120])
@each_row("verbose", [False, True])
def test_nothing_is_wider_than_the_terminal(width: int, verbose: bool) -> None:
    text = explain_terminal(column_physics(), width, verbose=verbose)
    assert max(map(len, text.splitlines()[1:])) <= width  # paths are not wrapped


LONG = (
    "The array is indexed with values that are known only at run time, so that the compiler puts "
    "it into local memory. Each step of the loop reads and writes it through the cache. "
) * 6


def long_statement(sample: str) -> ModelExplanation:
    """A model's explanation with every part, at maximum length."""
    prose = resolved_prose(sample, LONG)
    findings = [finding.id for finding in explained(sample).launches[0].findings]
    first = findings[0] if findings else "latency_bound"
    diff = "--- a/slow.cu\n+++ b/slow.cu\n@@ -1,0 +1,60 @@\n" + "+line();\n" * 60
    long = edit(
        first, prose, diff, ("slow.cu:1-60",), "", None, "compiles",
        "registers 32 → 40, no spills", prose, prose,
    )  # fmt: skip
    edits = tuple(replace(long, places=(f"slow.cu:{line}",)) for line in range(1, 8))
    others = ("latency_bound", "tail_effect", "sfu_bound")
    causes = [cause(finding, prose, (), "slow.cu:30") for finding in (first, *others)]
    objections = (cause(first, prose, ()), cause("warp_divergence", prose, ()))
    return said(
        prose, purpose=prose, causes=tuple(causes),
        objections=objections, edits=edits,
    )  # fmt: skip


BYTES = "DRAM bytes read 201.3 MB / (N 12,288 × 4 B)"


def computed(result: str = "128", how: str = BYTES) -> Reference:
    return Reference(
        f"{result} ({how})", ("dram_bytes_read#0",), "dram_bytes_read / (N * 4 B)", result
    )


def test_results_in_the_sentence_and_how_they_were_computed_below() -> None:
    summary = Prose((Sentence.of(("A thread holds ", computed(), " values.")),))
    parts = ("It spills ", computed(), " values, ", computed("2.5", "a / b"), " each.")
    cause = replace(physics().causes[0], text=Prose((Sentence.of(parts),)))
    statement = replace(physics(), summary=summary, causes=(cause,))
    texts = told(statement)
    at = texts.index("Model: A thread holds 128 values.")
    assert texts[at + 1] == f"128 = {BYTES}"
    at = texts.index("Why (model): It spills 128 values, 2.5 each.")
    assert texts[at + 1] == "2.5 = a / b"
    assert sum(BYTES in text for text in texts) == 1
    rows = cells_of(blocks_of(statement, form="markdown"))
    assert [BYTES, "128", "computed", "dram_bytes_read#0"] in rows
    assert ["a / b", "2.5", "computed", "dram_bytes_read#0"] in rows
    model = document(with_model("column_physics", statement))["launches"][0]["model"]
    assert model["summary"] == f"A thread holds 128 ({BYTES}) values."
    # Arithmetic is printed as a formula.
    formula = "It has {l2_throughput_pct / 2} of it, {l2_throughput_pct > 80 %}."
    texts = told(replace(physics(), summary=resolved_prose("column_physics", formula)))
    (at,) = (n for n, each in enumerate(texts) if each.startswith("Model: It has 41."))
    assert "82.3% > 80%" in texts[at]
    assert "=" not in texts[at]
    assert re.match(r"41\.\d+ ?% = ", texts[at + 1])


@each_row(
    ("form", "verbose", "is_listed"),
    [("terminal", True, True), ("markdown", False, False), ("markdown", True, True)],
)
def test_numbers_of_hidden_texts_are_hidden_too(
    form: Format, verbose: bool, is_listed: bool
) -> None:
    """Those of the purpose."""
    statement = replace(physics(), purpose=Prose((Sentence.of((computed(),)),)))
    rows = cells_of(blocks_of(statement, form=form, verbose=verbose))
    assert "l2_throughput_pct#0" in [row[-1] for row in rows]
    assert (BYTES in [row[0] for row in rows]) == is_listed


@pytest.mark.slow
@each_row("sample", ["column_physics", "sparse_apply"])
def test_a_kernel_fits_on_a_screen(sample: str) -> None:
    explanation = with_model(sample, long_statement(sample))
    text = explain_terminal(explanation, 100)
    assert text.count("\n") <= 45
    assert "more lines: --patch FILE" in text
    assert re.search(r"\d more edits: --verbose", text)
    assert "(more: --verbose)" in " ".join(text.split())
    narrow = explain_terminal(explanation, 80)  # about as many words, on more lines
    assert 45 < narrow.count("\n") <= 57


def test_what_the_report_lacks_takes_lines_of_the_screen() -> None:
    profile = read_profile("tests/data/reports/tour_basic.ncu-repz")
    explanation = explain(profile, profile.launches[:1], 5)
    each = replace(explanation.launches[0], model=long_statement("column_physics"))
    text = explain_terminal(explanation._replace(launches=(each,), author=AUTHOR), 100)
    assert "The report lacks " in text
    assert text.count("\n") <= 45


def one_sentence(words: int) -> Prose:
    return Prose((Sentence.of((f"{'word ' * words}end.",)),))


@pytest.mark.slow
def test_order_in_which_elements_are_left_out() -> None:
    """The second sentences of risk and check go first, then that of the cause, then the diff. The
    summary stays, and no sentence is cut."""
    two = Prose(tuple(Sentence.of((f"{'word ' * 18}{end}.",)) for end in ("one", "two")))
    diff = "--- a/x.cu\n+++ b/x.cu\n@@ -0,0 +1,10 @@\n" + "+line();\n" * 10
    edit = replace(physics().edits[1], risk=two, check=two, diff=diff)
    cause = replace(physics().causes[0], text=two)
    base = replace(physics(), causes=(cause,), objections=(), edits=(edit,))

    def whole(words: int) -> list[bool]:
        statement = replace(base, summary=one_sentence(words))
        text = explain_terminal(with_model("column_physics", statement), 100)
        assert text.count("\n") <= 45
        said = " ".join(text.split())
        assert f"Model: {statement.summary}" in said
        assert said.count("word ") == words + 18 * (said.count(" one.") + said.count(" two."))
        texts = [f"{name}: {two}" for name in ("Check", "Risk", "Why (model)")]
        return [*(each in said for each in texts), text.count("+line();") == 10]

    seen = [whole(words) for words in range(10, 300, 20)]
    first_cut = [parts.index(False) for parts in zip(*seen)]
    assert all(seen[0])
    assert first_cut == sorted(first_cut)
    assert first_cut[0] < first_cut[-1]


@each_row(("edits", "first"), [((0, 1), 1), ((2, 1), 1), ((0,), 0), ((3, 2), 2), ((), None)])
def test_edit_that_applies_and_compiles_comes_first(
    edits: tuple[int, ...], first: int | None
) -> None:
    """But one for the first finding before one for another."""
    sketch, patch = physics().edits
    fails = replace(patch, build="fails", build_text="`x` is not defined")
    other = replace(patch, finding="tail_effect", places=("slow.cu:9",))
    every = (sketch, patch, fails, other)
    statement = replace(physics(), edits=tuple(every[number] for number in edits))
    (each,) = with_model("column_physics", statement).launches
    ranked = ranked_edits(each)
    assert ranked[:1] == ([] if first is None else [every[first]])
    assert len(ranked) == len(edits)


@each_row(
    ("build", "build_text", "status"),
    [
        ("compiles", "compiles for sm_90: 32 -> 40 registers", "The patch applies. It compiles for sm_90: 32 -> 40 registers."),
        ("compiles", "", "The patch applies. It compiles."),
        ("fails", "does not compile for sm_90: x", "The patch applies. It does not compile for sm_90: x."),
        ("fails", "slow.cu:3: x", "The patch applies. It does not compile: slow.cu:3: x."),
        ("not checked", "not compiled: nvcc is not here", "The patch applies. It was not compiled: nvcc is not here."),
        ("fails", "is not valid Python: x", "The patch applies. It is not valid Python: x."),
        ("not checked", "took too long", "The patch applies. It was not compiled: took too long."),
    ],
)  # fmt: skip
def test_compile_result_is_printed(build: Any, build_text: str, status: str) -> None:
    edit = replace(physics().edits[1], build=build, build_text=build_text)
    assert edit_status(edit) == status


def test_edits_of_unconfirmed_causes_are_beside_the_others(wording) -> None:
    """The first screen prints none of them in full, and keet's own advice stays."""
    patch = replace(physics().edits[1], warnings=("slow.cu:3: variable x is unused",))
    unsure = replace(patch, cause_confirmed=False, not_in_patch="its cause is not known")
    action = " ".join(explained("column_physics").launches[0].findings[0].action.split())
    screen = blocks_of(replace(physics(), edits=(unsure,)))
    assert not any(isinstance(block, Code) for block in screen)
    assert action in texts_of(screen)
    assert any(text.startswith("Edit 1 (model) at") and "cause not confirmed" in text
               for text in texts_of(screen))  # fmt: skip
    texts = told(replace(physics(), edits=(unsure, patch)), verbose=True)
    title = texts.index("Other edits, cause not confirmed:")
    assert texts.index(f"Warning: {patch.warnings[0]}") < title
    assert any(unsure.not_in_patch in text for text in texts[title:])
    unsure_alone = with_model("column_physics", replace(physics(), edits=(unsure,)))
    (edit,) = document(unsure_alone)["launches"][0]["model"]["edits"]
    assert (edit["in_patch"], edit["cause_confirmed"]) == (False, False)
    wording(edit["not_in_patch"])


@each_row("verbose", [False, True])
def test_keets_advice_stays_where_no_edit_replaces_it(verbose: bool) -> None:
    action = explained("column_physics").launches[0].findings[0].action
    other, patch = physics().edits
    sketch = replace(other, finding="local_memory_spill")
    for edits, is_shown in (((other,), True), ((other, patch), False), ((sketch,), False)):
        texts = told(replace(physics(), edits=edits), verbose=verbose)
        assert (" ".join(action.split()) in texts) == is_shown


def test_model_cause_without_keet_findings() -> None:
    """Nor without samples at its place. Each of several launches has its model's part."""
    explanation = column_physics()
    twice = explanation._replace(launches=explanation.launches * 2)
    for verbose in (False, True):
        texts = texts_of(explain_blocks(twice, verbose=verbose))
        assert sum(text.startswith("Why (model): ") for text in texts) == 2
    each = replace(explanation.launches[0], findings=())
    texts = texts_of(explain_blocks(explanation._replace(launches=(each,))))
    (text,) = (each for each in texts if each.startswith("Local memory (model) at slow.cu:96: `Sp"))
    assert text.endswith(f"({standing(physics().causes[0], each)})")
    (each,) = explanation.launches
    (first,) = each.findings
    first = replace(first, locations=(replace(first.locations[0], share=0.0),))
    explanation = explanation._replace(launches=(replace(each, findings=(first,)),))
    assert "slow.cu:96 drops[k + regime.hop] += moved;" in texts_of(explain_blocks(explanation))
    assert "slow.cu:96" in texts_of(explain_blocks(explanation, form="markdown"))


def test_what_a_model_leads_with() -> None:
    """A forecast says in every format whose amounts it rests on, and so does a claim that is not
    used. All of the page also has keet's headline and what was computed."""
    explanation, statement = leading()
    texts = texts_of(explain_blocks(explanation, verbose=True))
    verdict = explanation.launches[0].verdict
    assert f"{verdict.headline} ({BY_MODEL})" in texts
    assert any(text.endswith(f": {verdict.analyst_headline}") for text in texts)
    (why,) = (text for text in texts if text.startswith("Why (model): Each column is read again"))
    notes = [*unused_notes(statement.causes[0]), *claim_notes(statement.causes[0])]
    assert len(notes) == 3
    assert why.endswith(f"({'; '.join(notes)})")
    whose, unused = "with the model's amounts; keet alone: 1.2x", "claim not used: bytes of local"
    terminal = " ".join(explain_terminal(explanation, 100).split())
    html = " ".join(texts_of(explain_blocks(explanation, form="html")))
    for text in (terminal, explain_markdown(explanation), html):
        assert whose in text
        assert unused in text
    first, second = document(explanation)["launches"][0]["findings"][:2]
    assert (first["amounts_by"], first["keet_alone"]["likely"]) == ("model", 1.2)
    assert (second["amounts_by"], second["keet_alone"]) == ("keet", second["forecast"])


@each_row("leads", [False, True])
def test_json_says_whose_headline_it_is(leads: bool) -> None:
    given = leading()[0] if leads else column_physics()
    (launch,) = document(given)["launches"]
    by = launch["verdict"]["by"]
    assert by == (BY_MODEL if leads else "keet")
    assert (by in plain(headline(given.launches[0]).words)) == leads
    assert ("analyst_headline" in launch["verdict"]) == launch["model"]["leads"] == leads
    assert launch["findings"][0]["origin"] == ("model" if leads else "keet")
    claim = {
        "supported": True, "reason": "The columns are read twice.", "gain": 2.2,
        "forecast": {"low": 1.4, "likely": 1.8, "high": 2.2}, "next_limiter": "the LSU pipe",
        "floor": {"value": 3948224.0, "unit": "ns", "nonfinite": None},
        "amounts_by": "model", "keet_alone": None,
    }  # fmt: skip
    assert launch["model"]["causes"][0].get("claim") == (claim if leads else None)


def test_numbers_and_unchecked_sentences_are_counted() -> None:
    own = document(explained("column_physics"))["grounding"]
    both = document(column_physics())["grounding"]
    count = physics().numbers
    assert count == 5
    assert both["numbers"] == own["numbers"] + count
    assert both["verified"] == own["verified"] + count

    def notices(statement: ModelExplanation, **how: Any) -> list[Words]:
        return [each.words for each in blocks_of(statement, **how) if isinstance(each, Notice)]

    summary = resolved_prose("column_physics", "!L2 is at 82 %. The XU pipe idles.")
    statement = replace(physics(), summary=summary)
    assert notices(physics()) == []
    assert notices(physics(), verbose=True) == notices(statement) == [*marked_texts([UNCHECKED])]
    assert notices(statement, verbose=True) == [*marked_texts([UNCHECKED * 2])]
    model = document(with_model("column_physics", statement))["launches"][0]["model"]
    assert model["summary"].startswith("[unchecked] L2 is at 82 %.")
    assert [each["where"] for each in model["unchecked"]] == ["summary", "causes[1].text"]
    page = explain_page([column_physics()] * 2, reader(), Asked(several=True))
    notices = [block for block in page.blocks if isinstance(block, Notice)]
    assert notices == [Notice(*marked_texts([UNCHECKED]))] * 2


@each_row(
    ("how", "text"),
    [
        ({}, "[unchecked] L2 is at 82 %. XU idles."),
        ({"with_reasons": True}, "[unchecked] L2 is at 82 %. (`40` is a number outside of braces) XU idles."),
        ({"links": {}}, "[unchecked] L2 is at 82 %. XU idles."),
    ],
)  # fmt: skip
def test_unchecked_sentences_are_marked(how: Any, text: str) -> None:
    words = model_words(resolved_prose("column_physics", "!L2 is at 82 %. XU idles."), **how)
    assert plain(words) == text
    assert next(spans(words)) == Span("[unchecked]", "warn")


def test_keets_remark_on_a_cause(wording) -> None:
    (each,) = column_physics().launches
    small = replace(each.findings[0], id="occupancy_limited_registers")
    listed, other = physics().causes
    claim: Any = leading()[1].causes[0].claim
    refused = replace(other, claim=replace(claim, supported=False))
    assert standing(listed, each) == ""
    assert "no forecast" in standing(other, each)
    assert "less than 10 %" in standing(other, replace(each, lesser=(small,)))
    assert standing(replace(listed, problem="a\nb"), each) == "not confirmed: a b"
    wording(standing(refused, each))


def test_without_a_model() -> None:
    explanation = explained("column_physics")
    plain = document(explanation)
    assert not {"problem", "transcript"} & set(plain)
    (launch,) = plain["launches"]
    assert not {"hypotheses", "model"} & set(launch)
    assert not {"why", "origin"} & set(launch["findings"][0])
    assert set(launch["verdict"]) == {"limiter", "reached_pct", "headline"}
    *texts, foot = texts_of(explain_blocks(explanation))
    assert not [text for text in texts if "odel" in text]
    assert foot.endswith(", no model.")
    problem = "api.example.org can't be reached; check --base-url"
    author = Authorship("m", usage(0, 0, 0, 0, "unknown", 0.2), problem, None)
    explanation = with_model("column_physics", None, author)
    as_json = document(explanation)
    assert (as_json["author"], as_json["problem"]) == ("analyst", problem)
    assert as_json["usage"]["cost"] == "unknown"
    assert as_json["launches"][0]["model"] is None
    assert as_json["launches"][0]["findings"][0]["why"] is None
    assert as_json["launches"][0]["verdict"]["by"] == "keet"
    *before, foot = explain_blocks(explained("column_physics"))
    *after, notice, other_foot = explain_blocks(explanation)
    assert after == before
    assert notice == Notice(f"The model's part is missing: {problem}", "strong warn")
    assert texts_of([foot]) == [f"{texts_of([other_foot])[0]}, no model."]
    for how in ({}, {"verbose": True}, {"form": "markdown"}):
        blocks = blocks_of(said(), **how)
        assert not [span for span in spans(words_of(blocks)) if "model" in span.look.split()]
        assert cells_of(blocks) == []
    document(with_model("column_physics", said()))


@each_row(
    ("problem", "answered", "notices"),
    [
        (None, True, []),
        ("it\nended", True, ["The model's part is incomplete: it ended"]),
        ("it ended", False, ["The model's part is missing: it ended"]),
    ],
)
def test_the_end_of_the_page(problem: str | None, answered: bool, notices: list[str]) -> None:
    author = AUTHOR._replace(problem=problem)
    *told, foot, transcript = author_blocks(author, (), answered=answered, part="part")
    assert [each.words for each in told if isinstance(each, Notice)] == notices
    assert (OWN_WORDS in texts_of([foot])[0]) == answered
    assert texts_of([foot])[0].endswith(usage_text(author))
    assert transcript.only == ("terminal",)  # pages may be shared: they name no local file


@each_row(
    ("usage", "text"),
    [
        (USAGE, "m: 3 calls (1 more from the cache), 8,214 tokens in, 1,022 out, $0.021, 12 s"),
        (usage(1, 0, 10, 2, "unknown", 0.4, True), "m: 1 call, about 10 tokens in, 2 out (counted by keet), price unknown, 0 s"),
        (usage(0, 3, 0, 0, "unknown", 0.1), "m: no call (3 from the cache), 0 s"),
        (usage(2, 0, 5, 5, 0.0, 1), "m: 2 calls, 5 tokens in, 5 out, $0.00, 1 s"),
        (usage(2, 0, 5, 5, 0.00001, 1), "m: 2 calls, 5 tokens in, 5 out, under $0.0001, 1 s"),
        (usage(2, 0, 5, 5, 12.345, 1), "m: 2 calls, 5 tokens in, 5 out, $12.35, 1 s"),
    ],
)  # fmt: skip
def test_usage(usage: UsageDocument, text: str) -> None:
    assert usage_text(Authorship("m", usage, None, None)) == text


HOSTILE = [
    "[bold red]all is well[/bold red] [/] [link=https://evil.example]here[/link]",
    "\x1b[2J\x1b[31mcleared\x07\r\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "```\n# out of the fence\n````\n~~~\n<script>alert(1)</script>",
    "\u202ereversed\u2066 and half a pair \ud800",
    "x" * 3000,
    "| a | b |\n| --- | --- |\n![image](https://evil.example/p.png) [E1](javascript:x)",
    ":boom: &lt;b&gt; $x$ @team #1 **bold** \\",
    "* ends *in* emphasis*",
]


def hostile_statement(text: str) -> ModelExplanation:
    reference = Reference(text, (text,), text)
    prose = Prose((Sentence.of((text, reference)), Sentence.of((text,), text)))
    return said(
        prose, purpose=prose,
        causes=(cause("local_memory_spill", prose, (reference,), text, text), cause(text, prose, (), text)),
        objections=(cause("local_memory_spill", prose, ()), cause(text, prose, ())),
        edits=(edit(text, prose, "", (text,), text, text, "not checked", text, prose, prose),
         edit(None, prose, text, (text,), "", None, "fails", text, prose, prose)),
        leads=True,
    )  # fmt: skip


def hostile(text: str) -> Explanation:
    author = Authorship(text, USAGE, text, text)
    told = with_model("column_physics", hostile_statement(text), author)
    (each,) = told.launches
    verdict = replace(each.verdict, analyst_headline=text)
    return told._replace(launches=(replace(each, verdict=verdict),))


@each_row("text", HOSTILE)
def test_hostile_texts(text: str) -> None:
    """Parsed as Markdown: text, and code in a block that it cannot close."""
    explanation = hostile(text)
    for width, verbose in ((40, True), (80, False)):
        out = explain_terminal(explanation, width, verbose=verbose)
        assert all(char == "\n" or char.isprintable() for char in out)
        assert "[bold" not in text or "[bold red]" in out
        code = [line for line in out.splitlines() if "│" in line]
        assert code
        assert all(len(line) <= width for line in code)
    out = explain_markdown(explanation, verbose=True)
    assert all(line.isprintable() for line in out.splitlines())
    tokens = MarkdownIt("commonmark").enable("table").parse(out)
    assert not html_in(out)
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h2", "h3", "h4"]
    fences = [token.content for token in tokens if token.type == "fence"]
    shown = [line for line in map(one_line, text.splitlines()) if line]
    assert [edit.splitlines() for edit in fences if "> " not in edit] == [shown, shown]
    html = explain_html(explanation)
    assert (html.count("<script"), html.count("<img")) == (1, 0)
    assert not re.search("[\u202e\x1b]", html)
    encoded = text.encode("utf-8", errors="backslashreplace").decode("utf-8")
    model = document(explanation)["launches"][0]["model"]
    assert model["summary"].startswith((encoded + encoded).strip())
    assert model["edits"][1]["diff"] == encoded
    assert model["unchecked"][0]["reason"] == encoded


def test_a_long_diff_is_cut_on_the_first_screen_only() -> None:
    lines = "".join(f"+line_{n}();\n" for n in range(100))
    diff = f"--- a/x.cu\n+++ b/x.cu\n@@ -0,0 +1,100 @@\n{lines}"
    long = replace(physics(), edits=(replace(physics().edits[1], diff=diff),))
    text = explain_terminal(with_model("column_physics", long), 100)
    (more,) = re.findall(r"\.\.\. (\d+) more lines: --patch FILE or --format markdown", text)
    assert text.count("+line_") + int(more) == 100
    assert "line_99();" not in text
    (code,) = (block for block in blocks_of(long, verbose=True) if isinstance(block, Code))
    assert [*code.lines] == diff.splitlines()
    assert code.most is None


def section_of(each: LaunchExplanation) -> list[Block]:
    return [*model_section(Shown(each, None, reader(), anchors=Anchors()))]


def section_blocks(explanation: Explanation, **changes: Any) -> list[Block]:
    """Of the section, with some parts of the model's explanation replaced."""
    (each,) = explanation.launches
    assert each.model is not None
    changed = replace(each.model, **changes)
    return [*every_block(section_of(replace(each, model=changed)), "html")]


def test_the_page_has_all_that_the_model_wrote() -> None:
    explanation, statement = leading()
    (each,) = explanation.launches
    objections = physics().objections
    shown = "\n".join(texts_of(section_blocks(explanation, objections=objections)))
    for _, text in (*statement.texts, *replace(statement, objections=objections).texts):
        for sentence in text.sentences:
            assert " ".join(sentence.split()) in shown
    remarks = [standing(cause, each) for cause in statement.causes]
    remarks += [not_confirmed(cause) for cause in objections]
    assert sum(map(bool, remarks)) == 3
    statuses = [edit_status(edit) for edit in statement.edits]
    for told in (*remarks, *statuses, str(each.verdict.analyst_headline)):
        assert told in shown


def test_links_lead_to_numbers_and_findings() -> None:
    (each,) = column_physics().launches
    ranks = range(1, len(each.findings) + 1)
    targets = [Part([], anchor=Anchors().finding(each.launch.id, n)) for n in ranks]
    root = page_tree(html_blocks([*section_of(each), *targets]))
    ids = {node.get("id") for node in root.iter()}
    links = [link.get("href", "") for link in root.iter("a")]
    assert {link.removeprefix("#") for link in links} <= ids
    assert sum("model-number" in link for link in links) >= 5
    assert f"#{targets[0].anchor}" in links
    cited = {i for i in physics().ids if i in {piece.id for piece in each.view.ledger}}
    rows = [words(row) for row in root.iter("tr")]
    assert all(any(name in row for row in rows) for name in cited)


def test_places_link_to_their_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    (each,) = column_physics().launches
    monkeypatch.setitem(each.launch.__dict__, "source_files", {"/src/slow.cu": ""})
    statement = _Statement(Shown(each, None, reader(), listed_by=4), physics())
    anchors = statement.shown.anchors
    assert statement.place("slow.cu:31-34").to == anchors.line(4, "/src/slow.cu", 31)
    assert statement.place("slow.cu:x").to == ""
    assert statement.place("other.cu:3").to == ""
    monkeypatch.setitem(each.launch.__dict__, "source_files", {"/a/slow.cu": "", "/b/slow.cu": ""})
    assert statement.place("slow.cu:31").to == ""  # two files of one name


def test_an_edit_on_a_page() -> None:
    """Tabs too: it has to apply. How the button finds it: tests of the formats."""
    sketch, patch = physics().edits
    diff = patch.diff.replace("    ", "\t")
    blocks = section_blocks(column_physics(), edits=(sketch, replace(patch, diff=diff)))
    codes = [block for block in blocks if isinstance(block, Code)]
    assert ["".join(f"{line}\n" for line in code.lines) for code in codes] == [
        diff,
        f"{sketch.sketch}\n",
    ]
    assert [code.copied for code in codes] == ["Copy patch", "Copy code"]
    assert len({code.anchor for code in codes} - {""}) == 2
    looks: dict[Any, str] = {"fails": "warn", "compiles": "good"}
    for build, look in looks.items():
        edit = replace(physics().edits[1], build=build, build_text="no")
        blocks = section_blocks(column_physics(), edits=(edit,))
        assert Text(edit_status(edit), look, indent=5) in blocks
    edit = replace(physics().edits[1], places=("a.cu:5", "a.cu:18-27", "b.h:3", "a.cu:9"))
    assert places_of(edit) == "a.cu:5, 18-27, b.h:3, a.cu:9"
