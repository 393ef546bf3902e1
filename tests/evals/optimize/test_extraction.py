"""The program in an answer, however it is wrapped."""

from __future__ import annotations

from evals.optimize.extraction import extract
from tests.rows import each_row

PROGRAM = """\
#include "problem.h"

__global__ void work(Problem p) { p.out[0] = 1; }

void launch(const Problem& problem) {
    work<<<1, 1>>>(problem);
}
"""
OTHER = PROGRAM.replace("= 1", "= 2")
EXCERPT = "void launch(const Problem& problem) {\n    work<<<2, 1>>>(problem);\n}\n"
HEADER = "#pragma once\nstruct Problem {};\nvoid launch(const Problem& problem);\n"


def fenced(code: str, language: str = "cuda", fence: str = "```") -> str:
    return f"{fence}{language}\n{code}{fence}\n"


@each_row("language", ["cuda", "cpp", "c++", "", "C++", "cu", "cuda slow.cu"])
def test_a_block_in_any_language(language: str) -> None:
    assert extract(f"Here it is.\n\n{fenced(PROGRAM, language)}\nDone.").code == PROGRAM


@each_row(
    "answer",
    [
        fenced(PROGRAM, fence="````"),
        fenced(PROGRAM, fence="~~~"),
        fenced(PROGRAM).replace("\n", "\r\n"),
        "\ufeff" + fenced(PROGRAM),
        "Here: " + fenced(PROGRAM),
        "```cuda\n" + PROGRAM,
        "```cuda\n" + PROGRAM.rstrip() + "```",
        PROGRAM,
        "This one is faster:\n\n" + PROGRAM + "\nIt should run at the speed of memory.",
        "<think>" + fenced(OTHER) + "</think>" + fenced(PROGRAM),
        fenced(OTHER) + "no, better:</think>\n" + fenced(PROGRAM),
        "<THINKING>\n" + OTHER + "</THINKING>\n" + PROGRAM,
        fenced(PROGRAM) + "Compile with\n" + fenced("nvcc slow.cu\n", "bash"),
        fenced(HEADER) + fenced(PROGRAM),
        fenced(PROGRAM) + fenced(HEADER),
        fenced(PROGRAM) + "<think>" + fenced(OTHER),
    ],
)
def test_text_around_the_program_is_ignored(answer: str) -> None:
    found = extract(answer).code
    assert found is not None
    assert found.strip() == PROGRAM.strip()


def test_the_last_whole_program_counts_not_a_draft() -> None:
    assert extract(fenced(OTHER) + "Better:\n" + fenced(PROGRAM)).code == PROGRAM


def test_an_excerpt_after_the_program_is_not_the_program() -> None:
    assert extract(fenced(PROGRAM) + "The change is:\n" + fenced(EXCERPT)).code == PROGRAM


def test_without_a_whole_program_the_longest_part_is_tried() -> None:
    longer = "__global__ void work(Problem p) {}\n" + EXCERPT
    assert extract(fenced(longer) + fenced(EXCERPT)).code == longer


def test_a_finished_draft_is_better_than_a_program_that_was_cut_off() -> None:
    cut = "```cuda\n" + OTHER[:-3]
    assert extract(fenced(PROGRAM) + cut).code == PROGRAM


@each_row(
    "line",
    [
        '    printf("```");',
        "    // ```",
        '    const char* s = R"(\n```\n)";',
        "    /* void launch(const Problem& problem) { */",
    ],
)
def test_signs_of_other_languages_within_the_code(line: str) -> None:
    code = PROGRAM.replace("    work", f"{line}\n    work")
    found = extract(fenced(code, fence="````")).code
    assert found == code


def test_a_fence_in_a_comment_does_not_end_the_block() -> None:
    code = PROGRAM.replace("    work", "    // as ```\n    work")
    assert extract(fenced(code)).code == code


@each_row(
    ("answer", "why"),
    [
        ("", "the answer is empty"),
        ("  \n", "the answer is empty"),
        ("<think>hm</think>", "the answer is empty"),
        ("I can't help with that.", "no block of code"),
        ("Use void launch(const Problem& problem) { ... } with more threads.", "no block of code"),
        (fenced("__global__ void work() {}\n"), "no block of the answer defines"),
        (fenced(HEADER), "no block of the answer defines"),
        (fenced("// void launch(const Problem& problem) {\n"), "no block of the answer defines"),
        (
            fenced('auto s = "void launch(const Problem& p) {}";\n'),
            "no block of the answer defines",
        ),
        (fenced("void launch(int n) {}\n"), "no block of the answer defines"),
        (fenced("- old\n+void launch(const Problem& problem) {\n", "diff"), "is a diff"),
        ("```cuda\n" + PROGRAM[:-3], "it was cut off"),
        (PROGRAM[:-3], "it was cut off"),
        ("<think>" + fenced(PROGRAM), "the answer is empty"),
    ],
)
def test_the_reason_for_a_missing_program_is_given(answer: str, why: str) -> None:
    found = extract(answer)
    assert found.code is None
    assert why in found.why


@each_row(
    "definition",
    [
        "void launch(Problem const& p) {}",
        "void launch(const Problem &problem)\n{\n}",
        "extern void launch(const Problem&) {}",
        "void launch( const struct Problem & problem ) noexcept {}",
    ],
)
def test_a_definition_may_be_written_in_many_ways(definition: str) -> None:
    assert extract(fenced(f"#include <cmath>\n{definition}\n")).code is not None


@each_row("unit", ["/*", "`", "```\n", "{", '"', "void launch(", "<think>", 'R"('])
def test_a_hostile_answer_takes_no_longer_than_a_long_one(unit: str) -> None:
    assert extract(unit * 20_000).code is None
