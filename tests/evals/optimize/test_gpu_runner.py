"""The runner, the referee and checkers end to end, with a stand-in for CUDA: candidates are plain
loops, and device memory is memory that processes share."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evals.optimize.gpu.scorer import (
    building,
    command,
    contest,
    isolation,
    machine,
    processes,
)
from evals.optimize.gpu.scorer.common import HERE, RefereeFailed, Verdict
from evals.optimize.gpu.scorer.contender import Contender
from tests.rows import each_row

FAKE = Path(__file__).parent / "fake_cuda"
needs_compiler = pytest.mark.skipif(
    not all(map(shutil.which, ("g++", "nm", "objdump"))), reason="g++ and binutils are needed"
)
needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="/proc is needed")
KERNEL = """
#include <cuda_runtime.h>
#include "problem.h"
static void fill(const void* argument) {
    const Problem& p = *static_cast<const Problem*>(argument);
    int positive = 0;
    for (int i = 0; i < p.n; ++i) {
        p.out[i] = p.gain * p.in[i] + p.offset[p.place[i]];
        positive += p.in[i] > 0;
    }
    *p.positive = positive;
}
static void run(const Problem& p, cudaStream_t s = nullptr) { cudaFakeLaunch(fill, &p, sizeof p, s); }
"""
COPY = """
struct Kept { float key; int n; float out[20100]; int positive; };
static Kept room[8];
static int used = 0;
static void take(const Problem& p, float key) {
    Kept& kept = room[used++];
    kept.key = key;
    for (int i = 0; i < p.n; ++i) kept.out[i] = p.out[i];
    kept.positive = *p.positive;
}
static bool give(const Problem& p, float key) {
    for (const Kept* kept = room; kept < room + used; ++kept) {
        if (kept->key != key) continue;
        for (int i = 0; i < p.n; ++i) p.out[i] = kept->out[i];
        *p.positive = kept->positive;
        return true;
    }
    return false;
}
"""
HONEST = KERNEL + "void launch(const Problem& p) { run(p); }"
BY_ADDRESS = f"""{KERNEL}{COPY}
void launch(const Problem& p) {{
    static const float* last = nullptr;
    if (last != p.in) {{ run(p); take(p, 0); last = p.in; }}
    give(p, 0);
}}"""
CANDIDATES: dict[str, tuple[str, str, str]] = {
    "honest": ("PASSED", "13 seeds", HONEST),
    "scratch_is_free": (
        "PASSED",
        "13 seeds",
        KERNEL
        + "void launch(const Problem& p) { run(p); for (int i = 0; i < p.n; ++i) p.scratch[i] = 1; }",
    ),
    "skips_work": (
        "INCORRECT",
        "not finite",
        KERNEL + "void launch(const Problem& p) { Problem h = p; h.n /= 2; run(h); }",
    ),
    "writes_nothing": ("INCORRECT", "not finite", KERNEL + "void launch(const Problem&) {}"),
    "kept_by_address": ("CHEAT", "result of other data", BY_ADDRESS),
    "kept_by_count": (
        "CHEAT",
        "kept from",
        f"""{KERNEL}{COPY}
void launch(const Problem& p) {{
    static int calls = 0;
    if (++calls > 7) {{ give(p, 7); return; }}
    run(p);
    take(p, calls);
}}""",
    ),
    "junk_for_new_content": (
        "CHEAT",
        "result of other data",
        f"""{KERNEL}{COPY}
void launch(const Problem& p) {{
    if (give(p, p.gain)) return;
    if (used == 2) {{ give(p, room[1].key); return; }}
    run(p);
    take(p, p.gain);
}}""",
    ),
    "other_stream": (
        "INCORRECT or CHEAT",  # as the thread has it
        "",
        KERNEL
        + """void launch(const Problem& p) {
    static cudaStream_t side = nullptr;
    if (!side) cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    run(p, side);
}""",
    ),
    "mutates_inputs": (
        "CHEAT",
        "changes its inputs",
        KERNEL
        + "void launch(const Problem& p) { run(p); for (int i = 0; i < p.n; ++i) const_cast<float*>(p.in)[i] = 0; }",
    ),
    "mutates_host_inputs": (
        "CHEAT",
        "changes its inputs",
        KERNEL + "void launch(const Problem& p) { run(p); const_cast<float*>(p.offset)[5] = 0; }",
    ),
    "mutates_when_timed": (
        "CHEAT",
        "changes its inputs",
        KERNEL
        + "static int calls = 0;\nvoid launch(const Problem& p) { run(p); if (++calls > 7) const_cast<int*>(p.place)[9] ^= 1; }",
    ),
    "wrong_when_timed": (
        "INCORRECT",
        "in a timed launch",
        KERNEL
        + "void launch(const Problem& p) { static int c = 0; run(p); if (++c > 7) *p.positive += 1; }",
    ),
    "fakes_events": (
        "CHEAT",
        "cudaEventRecord",
        HONEST + "\ncudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }",
    ),
    "hides_a_name": (
        "CHEAT",
        "getenv",
        KERNEL
        + '#include <cstdlib>\n#define J(a, b) a##b\nvoid launch(const Problem& p) { if (!J(get, env)("X")) run(p); }',
    ),
    "calls_the_problem": (
        "CHEAT",
        "problem_main",
        KERNEL
        + "#define J(a, b) a##b\nint J(problem_, main)(int, char**);\nvoid launch(const Problem& p) { run(p); J(problem_, main)(0, 0); }",
    ),
    "prints_a_result": (
        "CHEAT",
        "printing",
        KERNEL
        + '#include <cstdlib>\nvoid launch(const Problem& p) { printf("{\\"us\\": 0.1}"); run(p); }',
    ),
    "illegal_address": (
        "RUNTIME_ERROR",
        "illegal memory access",
        KERNEL + "void launch(const Problem&) { cudaFakeFault(); }",
    ),
    "segfaults": (
        "RUNTIME_ERROR",
        "SIGSEGV",
        KERNEL + "void launch(const Problem&) { *(volatile int*)8 = 1; }",
    ),
    "takes_host_memory": (
        "RUNTIME_ERROR",
        "of host memory",
        KERNEL
        + "#include <cstdlib>\n#include <cstring>\nvoid launch(const Problem&) { for (;;) memset(malloc(1 << 20), 1, 1 << 20); }",
    ),
    "exits": (
        "RUNTIME_ERROR",
        "ended early: exit status 0",
        KERNEL + "#include <cstdlib>\nvoid launch(const Problem& p) { run(p); exit(0); }",
    ),
    "rewrites_the_table": (
        "CHEAT",
        "_GLOBAL_OFFSET_TABLE_",
        KERNEL
        + "#define J(a, b) a##b\nextern unsigned long J(_GLOBAL_OFFSET, _TABLE_)[];\nvoid launch(const Problem& p) { run(p); J(_GLOBAL_OFFSET, _TABLE_)[3] = 0; }",
    ),
    "never_ends": (
        "TIMEOUT",
        "within",
        KERNEL + "void launch(const Problem& p) { volatile int turn = p.n; while (turn) {} }",
    ),
    "does_not_compile": (
        "COMPILE_ERROR",
        "error",
        KERNEL + "void launch(const Problem& p) { run(p) }",
    ),
    "has_no_launch": (
        "COMPILE_ERROR",
        "launch",
        KERNEL + "void start(const Problem& p) { run(p); }",
    ),
}
HEAVY = """
static void toil(const void* argument) { for (int k = 0; k < 300; ++k) fill(argument); }
static void work(const Problem& p) { cudaFakeLaunch(toil, &p, sizeof p, nullptr); }
"""
BLOCK = """
#include <cstdlib>
#include <cstring>
static volatile unsigned* block(const Problem& p) {  // armed, go, done
    volatile unsigned long here = 0;
    for (int k = 0; k < 256; ++k) {
        const unsigned long value = (&here)[k];
        const unsigned long library = reinterpret_cast<unsigned long>(&std::free);
        const unsigned long apart = value > library ? value - library : library - value;
        if (value % 4096 || apart > (1ul << 30)) continue;
        if (std::memcmp(reinterpret_cast<const char*>(value + 320), &p, sizeof p)) continue;
        return reinterpret_cast<volatile unsigned*>(value);
    }
    return nullptr;
}
"""


def stays_in_launch(step: str) -> str:
    """It answers the referee itself from its first launch on."""
    return f"""{KERNEL}{HEAVY}{BLOCK}
void launch(const Problem& p) {{
    volatile unsigned* counter = block(p);
    work(p);
    for (unsigned next = counter[1] + 1;; ++next) {{
        Problem told = p;
        counter[2] = next - 1;
        {step}
        counter[2] = next;
    }}
}}"""


CANDIDATES |= {
    "arms_late": (  # when the next inputs are there, and it has worked on them
        "INCORRECT or CHEAT",
        "",
        stays_in_launch("""while (*(volatile int*)p.positive != -1) {}
        std::memcpy(&told, (const char*)counter + 320, sizeof told);
        work(told);
        counter[0] = next;
        while (counter[1] != next) {}"""),
    ),
    "begins_early": (  # with most of the work, as soon as the inputs are there
        "PASSED",
        "13 seeds",
        stays_in_launch("""const float before = p.in[7];
        counter[0] = next;
        while (*(volatile float*)&p.in[7] == before && counter[1] != next) {}
        work(p);
        while (counter[1] != next) {}
        std::memcpy(&told, (const char*)counter + 320, sizeof told);
        run(told);"""),
    ),
    "heavy_but_honest": (
        "PASSED",
        "13 seeds",
        f"{KERNEL}{HEAVY}void launch(const Problem& p) {{ work(p); }}",
    ),
    "says_done_early": (
        "CHEAT",
        "after it had said that it was done",
        f"""{KERNEL}{HEAVY}{BLOCK}
void launch(const Problem& p) {{
    if (volatile unsigned* counter = block(p)) counter[2] = counter[1];
    work(p);
}}""",
    ),
    "kept_by_content": (
        "CHEAT",
        "results are kept",
        f"""{KERNEL}{COPY}{HEAVY}
void launch(const Problem& p) {{
    const float key = p.in[0] * 3 + p.in[77] * 5 + p.offset[0] + p.place[3];
    if (give(p, key)) return;
    work(p);
    if (used < 8) take(p, key);
}}""",
    ),
    "idle_on_new_data": (
        "INCORRECT",
        "not finite",
        f"""{KERNEL}{COPY}
void launch(const Problem& p) {{
    if (give(p, p.in[0]) || used == 3) return;
    run(p);
    take(p, p.in[0]);
}}""",
    ),
    "old_result_for_new_data": (
        "CHEAT",
        "result of other data",
        f"""{KERNEL}{COPY}
void launch(const Problem& p) {{
    if (give(p, p.in[0])) return;
    if (used > 3) {{ give(p, room[2].key); return; }}
    run(p);
    take(p, p.in[0]);
}}""",
    ),
    "coarse_when_timed": (
        "INCORRECT",
        "in a timed launch",
        KERNEL
        + "void launch(const Problem& p) { static int c = 0; run(p); if (++c > 7) for (int i = 0; i < p.n; ++i) p.out[i] *= 1.0009f; }",
    ),
    "weak_write": (
        "CHEAT",
        "defines write",
        HONEST
        + """
#define NAMED(name) __asm__(#name)
long reply(int to, const void* text, unsigned long size) NAMED(write);
__attribute__((weak)) long reply(int, const void*, unsigned long size) { return size; }""",
    ),
}


def from_free(name: str) -> int:
    """How far a function of the C library lies from one that a candidate may name."""
    library = ctypes.CDLL(None)
    here, there = (
        ctypes.cast(getattr(library, one), ctypes.c_void_p).value for one in ("free", name)
    )
    assert here is not None
    assert there is not None
    return there - here


REACHES_OUT = f"""{KERNEL}#include <cstdio>
#include <cstdlib>
#include <cstring>
template <class F> static F* at(long by) {{
    return reinterpret_cast<F*>(reinterpret_cast<char*>(&std::free) + by);
}}
static int environment_of(int process) {{
    char path[40] = "/proc/", digits[12];
    int count = 0;
    for (; process; process /= 10) digits[count++] = static_cast<char>('0' + process % 10);
    char* end = path + 6;
    while (count) *end++ = digits[--count];
    std::memcpy(end, "/environ", 9);
    return at<int(const char*, int, int)>({from_free("open")})(path, 0, 0);
}}
void launch(const Problem& p) {{
    static int calls = 0;
    run(p);
    if (calls++) return;
    const int child = at<int()>({from_free("fork")})();
    if (child == 0) {{
        at<int()>({from_free("setsid")})();
        for (;;) at<unsigned(unsigned)>({from_free("sleep")})(600);
    }}
    const int scorer = at<int()>({from_free("getppid")})();
    const int opened = environment_of(scorer);
    std::fprintf(stderr, "of %d opened %d child %d\\n", scorer, opened, child);
}}"""
CANDIDATES["reaches_out"] = ("PASSED", "13 seeds", REACHES_OUT)
MARKS = f"""{KERNEL}#include <cstdio>
void launch(const Problem& p) {{
    static bool first = true;
    volatile float* beyond = p.out + 30000;  // of 20,000
    if (first && *beyond == 5) std::fprintf(stderr, "found");
    *beyond = 5;
    first = false;
    run(p);
}}"""
CANDIDATES |= {f"marks_{k}": ("PASSED", "13 seeds", MARKS) for k in (1, 2)}
CANDIDATES["changes_the_cpus_of_others"] = (
    "PASSED or CHEAT",  # where Linux refuses it, and where it is seen
    "",
    f"""{KERNEL}#include <cstdlib>
void launch(const Problem& p) {{
    run(p);
    const auto at = [](long by) {{ return reinterpret_cast<char*>(&std::free) + by; }};
    const int scorer = reinterpret_cast<int (*)()>(at({from_free("getppid")}))();
    const unsigned long first = 1;
    reinterpret_cast<int (*)(int, unsigned long, const void*)>(at({from_free("sched_setaffinity")}))(
        scorer, sizeof first, &first);
}}""",
)
HOG = (
    KERNEL
    + "void launch(const Problem& p) { void* m; while (!cudaMalloc(&m, 1 << 28)) {} run(p); }"
)
VARYING = {"varying.honest": HONEST, "varying.kept_by_address": BY_ADDRESS, "varying.hog": HOG}


def sample_parts(bundle: Path, name: str, *flags: str) -> dict[str, Any]:
    shutil.copytree(FAKE / "halves", bundle / "samples" / name)
    return {"flags": list(flags), "headers": [], "compulsory_bytes": 100}


def broken_sample(bundle: Path) -> dict[str, Any]:
    folder = bundle / "samples" / "broken"
    folder.mkdir(parents=True)
    for name, text in {"problem.h": "", "problem.cu": "", "slow.cu": "no code"}.items():
        (folder / name).write_text(text, encoding="utf-8")
    return {"flags": [], "headers": []}


def write_bundle(bundle: Path) -> None:
    shutil.copytree(HERE / "harness", bundle / "harness")
    (bundle / "candidates").mkdir()
    samples = {
        "halves": sample_parts(bundle, "halves"),
        "varying": sample_parts(bundle, "varying", "-DSIZES_VARY"),
        "broken": broken_sample(bundle),
    }
    sources = {("halves", name): case[2] for name, case in CANDIDATES.items()}
    sources |= {("varying", name): source for name, source in VARYING.items()}
    sources["broken", "innocent"] = "void launch() {}"
    candidates = []
    for (sample, name), source in sources.items():
        file = f"candidates/{name}.cu"
        (bundle / file).write_text(source, encoding="utf-8")
        candidates.append({"id": name, "sample": sample, "model": "m", "file": file})
    manifest = {"schema_version": 1, "run": "r", "arch": "native", "samples": samples}
    text = json.dumps({**manifest, "candidates": candidates})
    (bundle / "manifest.json").write_text(text, encoding="utf-8")


def score(bundle: Path, output: Path, *more: str) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "gpu_trouble", lambda: None)
        assert run(bundle, output, *more) == 0
    record: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    return record


def run(bundle: Path, output: Path, *more: str) -> int:
    assert FAKE.is_dir()
    options = ["-o", str(output), "--nvcc", str(FAKE / "nvcc"), "--jobs", "3", "--at-once", "30"]
    options += ["--rounds", "3", "--launches", "4", "--gpu-limit", "3", "--memory-limit", "0.4"]
    return command.main([str(bundle), *options, *more])


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("gpu")
    runtime = folder / "cuda_runtime.o"
    subprocess.run(
        ["g++", "-O1", "-c", f"-I{FAKE}", "-o", runtime, FAKE / "cuda_runtime.cpp"], check=True
    )
    write_bundle(folder / "bundle")
    cpus = os.sched_getaffinity(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAKE_CUDA_OBJECT", str(runtime))
        work = ("--work", str(folder / "work"))
        record = score(folder / "bundle", folder / "measured.json", *work)
        yield {**record, "folder": folder, "cpus": cpus}


def by_id(record: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {result["id"]: result for result in record["results"]}


@pytest.mark.slow
@needs_compiler
def test_each_candidate_gets_its_expected_status(measured):
    results = by_id(measured)
    wrong = [
        (name, results[name]["status"], results[name]["why"])
        for name, (status, part, _) in CANDIDATES.items()
        if results[name]["status"] not in status.split(" or ") or part not in results[name]["why"]
    ]
    assert not wrong


@pytest.mark.slow
@needs_compiler
def test_a_passed_candidate_has_its_times(measured):
    result = by_id(measured)["honest"]
    assert len(result["speedup_rounds"]) == 3
    assert result["speedup"] == pytest.approx(
        result["baseline_us"] / result["candidate_us"], rel=1e-3
    )
    assert 0 < result["baseline_p10_us"] <= result["baseline_us"] <= result["baseline_p90_us"]
    assert result["impossible_us"] == 0  # all of it fits into the L2
    assert result["empty_us"] > 0
    assert {"first_us", "seen_us", "noise_us"} <= set(result)


@pytest.mark.slow
@needs_compiler
def test_a_program_with_the_c_library_cannot_read_the_scorer_or_leave_processes(measured):
    words = by_id(measured)["reaches_out"]["log"].split()
    told = dict(zip(words[::2], map(int, words[1::2]), strict=True))
    assert (told["of"], told["opened"]) == (os.getpid(), -1)
    assert told["child"] > 0
    assert not is_running(told["child"])


@pytest.mark.slow
@needs_compiler
def test_work_before_go_gains_nothing(measured):
    results = by_id(measured)
    honest, early = results["heavy_but_honest"], results["begins_early"]
    assert early["candidate_us"] > honest["candidate_us"] / 2


@pytest.mark.slow
@needs_compiler
def test_a_program_finds_nothing_that_another_left_in_the_arrays(measured):
    results = by_id(measured)
    assert [results[f"marks_{k}"]["log"] for k in (1, 2)] == ["", ""]


@pytest.mark.slow
@needs_compiler
def test_a_program_cannot_change_the_cpus_of_the_scorer(measured):
    assert os.sched_getaffinity(0) == measured["cpus"]


@pytest.mark.slow
@needs_compiler
@needs_proc
@pytest.mark.parametrize(
    ("name", "command"), [("referee", "facts"), ("halves/checker", f"make {'7' * 32}")]
)
def test_the_memory_of_the_referee_and_of_checkers_is_hidden(measured, name, command):
    """From processes of the same user without capabilities."""
    nobody = 65534 if os.geteuid() == 0 else None
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    memory = [] if name == "referee" else [os.memfd_create("inputs"), os.memfd_create("results")]
    with tempfile.TemporaryDirectory() as folder, ours:
        Path(folder).chmod(0o755)
        binary = shutil.copy(measured["folder"] / "work" / name, folder)
        with theirs:
            passed = (theirs.fileno(), *memory)
            process = subprocess.Popen(
                [binary, *map(str, passed)], pass_fds=passed, user=nobody, cwd="/"
            )
        try:
            ours.send(command.encode())
            assert ours.recv(1 << 16)
            reader = ("cat", f"/proc/{process.pid}/environ")
            done = subprocess.run(reader, capture_output=True, user=nobody, check=False)
            assert process.poll() is None
        finally:
            process.kill()
            process.wait()
            for descriptor in memory:
                os.close(descriptor)
    assert b"Permission denied" in done.stderr


@pytest.mark.slow
@needs_compiler
def test_candidates_of_a_disturbed_contest_are_measured_again(measured, monkeypatch):
    enter = contest.Contest._enter

    def disturbed(held: contest.Contest, contender: Contender) -> None:
        if len(held.candidates) > 1 and contender is held.candidates[-1]:
            raise RefereeFailed("another process used the GPU; measure again when it is free")
        enter(held, contender)

    monkeypatch.setattr(contest.Contest, "_enter", disturbed)
    output = measured["folder"] / "disturbed.json"
    only = ("--only", "honest", "skips_work")
    found = by_id(score(measured["folder"] / "bundle", output, *only))
    statuses = {name: result["status"] for name, result in found.items()}
    assert statuses == {"honest": "PASSED", "skips_work": "INCORRECT"}


@pytest.mark.slow
@needs_compiler
def test_every_timed_launch_has_a_seed_of_its_own(measured):
    seeds = by_id(measured)["honest"]["seeds"]
    assert len(set(seeds)) == len(seeds) == 13
    assert {len(seed) for seed in seeds} == {32}  # 128 bits


@pytest.mark.slow
@needs_compiler
def test_failed_programs_have_no_times(measured):
    for result in measured["results"]:
        if result["status"] != "PASSED":
            assert not {"candidate_us", "candidate_p10_us", "first_us", "seen_us"} & set(result)


@pytest.mark.slow
@needs_compiler
def test_sizes_may_depend_on_the_seed(measured):
    results = by_id(measured)
    assert results["varying.honest"]["status"] == "PASSED", results["varying.honest"]
    assert results["varying.kept_by_address"]["status"] in {"CHEAT", "INCORRECT"}


@pytest.mark.slow
@needs_compiler
def test_a_program_that_takes_all_device_memory_gets_no_more(measured):
    result = by_id(measured)["varying.hog"]
    assert (result["status"], result["why"]) == ("RUNTIME_ERROR", "CUDA: out of memory")


@pytest.mark.slow
@needs_compiler
def test_a_baseline_that_is_not_built_leaves_its_candidates_unscored(measured):
    result = by_id(measured)["innocent"]
    assert result["status"] is None
    assert "baseline" in result["why"]


@pytest.mark.slow
@needs_compiler
def test_the_machine_and_the_settings_are_recorded(measured):
    assert measured["machine"]["gpu"] == "a stand-in"
    assert measured["machine"]["network"].startswith(("cut off", "reachable"))
    assert measured["settings"]["rounds"] == 3
    assert measured["settings"]["limits"]["gpu"] == 3


@pytest.mark.slow
@needs_compiler
def test_a_compile_error_keeps_the_compilers_words(measured):
    result = by_id(measured)["does_not_compile"]
    assert result["why"].startswith("candidate.cu:")
    assert "candidate.cu: In function" in result["log"]


@pytest.mark.slow
@needs_compiler
def test_no_reason_and_no_log_of_a_build_has_a_path_of_the_machine(measured):
    for name in ("does_not_compile", "has_no_launch"):
        result = by_id(measured)[name]
        assert "/candidate" not in result["why"] + result["log"], result
        assert "/work/" not in result["why"] + result["log"], result


@pytest.mark.slow
@needs_compiler
def test_programs_with_a_status_are_not_run_again(measured):
    folder = measured["folder"]
    before = {name: r for name, r in by_id(measured).items() if r["status"]}
    again = by_id(
        score(folder / "bundle", folder / "measured.json", "--only", "honest", "skips_work")
    )
    assert {name: again[name] for name in before} == before


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize(
    ("more", "name", "here"),
    [
        (("--rounds", "2"), None, "rounds 3, and this is 2"),
        (("--launches", "9"), None, "launches 4, and this is 9"),
        (("--arch", "sm_1"), None, "arch native, and this is sm_1"),
        (("--only", "innocent"), "another", "gpu a stand-in, and this is another"),
    ],
)
def test_a_file_of_another_machine_is_not_continued(
    measured, monkeypatch, capsys, more, name, here, wording
):
    file = measured["folder"] / "measured.json"
    before = file.read_bytes()
    monkeypatch.setattr(command, "gpu_trouble", lambda: None)
    monkeypatch.setattr(machine, "gpu_name", lambda: name)
    assert run(measured["folder"] / "bundle", file, *more) == 2
    said = capsys.readouterr().err
    wording(said)
    assert said.count("\n") == 1
    assert file.read_bytes() == before


@pytest.mark.slow
@needs_compiler
def test_the_file_stays_if_nothing_is_left_to_measure(measured):
    file = measured["folder"] / "measured.json"
    before = file.read_bytes()
    score(measured["folder"] / "bundle", file, "--only", "honest", "--gpu-limit", "4")
    assert file.read_bytes() == before


# --- the machine


@pytest.mark.skipif(not shutil.which("nm"), reason="nm is needed")
def test_without_a_gpu_it_stops_before_compiling(tmp_path, monkeypatch, capsys, wording):
    write_bundle(tmp_path / "bundle")
    monkeypatch.setattr(command, "gpu_trouble", lambda: "the driver knows none")
    monkeypatch.setattr(building.Builder, "call", lambda *_: pytest.fail("it compiles"))
    assert run(tmp_path / "bundle", tmp_path / "measured.json") == 3
    wording(capsys.readouterr().err)
    assert not (tmp_path / "measured.json").exists()


def test_a_folder_that_is_not_a_bundle_is_reported(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        run(tmp_path, tmp_path / "measured.json")
    assert "holds no manifest.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("", None),
        ("raise SystemExit('first\\nlast')", "last"),
        ("import os; os.kill(os.getpid(), 9)", "it ends with status -9"),
        ("import ctypes; ctypes.CDLL('libnowhere.so.1')", "OSError: libnowhere"),
    ],
)
def test_what_the_driver_says_of_a_gpu(monkeypatch, code, said):
    monkeypatch.setattr(machine, "_ASK_DRIVER", code)
    found = machine.gpu_trouble()
    assert found is None if said is None else found.startswith(said)


@pytest.mark.parametrize(("code", "name"), [("print('H')", "H"), ("", None), ("1 / 0", None)])
def test_what_the_driver_calls_a_gpu(monkeypatch, code, name):
    monkeypatch.setattr(machine, "_ASK_DRIVER", code)
    assert machine.gpu_name() == name


@each_row(
    ("told", "short"),
    [
        (
            '/tmp/score-ab/work/candidates/fd/candidate.cu(40): error: calling f("x")',
            'candidate.cu(40): error: calling f("x")',
        ),
        (
            "ptxas /tmp/tmpxft_00000a16_00000000-6_candidate.ptx, line 1032; error   : Instruction",
            "candidate.ptx, line 1032: error: Instruction",
        ),
        ("nvlink /var/tmp/tmpxft_0a_00-10_candidate.o: undefined", "nvlink candidate.o: undefined"),
        (
            "tmpxft_0a_00-6_candidate.cudafe1.cpp:(.text+0x66): undefined reference",
            "candidate.cudafe1.cpp:(.text+0x66): undefined reference",
        ),
        ("candidate.cu(4): error: a / b", "candidate.cu(4): error: a / b"),
        ("/usr/include/c++/13/vector(3): error", "/usr/include/c++/13/vector(3): error"),
    ],
)
def test_paths_of_the_machine_are_left_out(told, short):
    assert building.short_paths(told) == short


def program(folder: Path, script: str) -> processes.Program:
    """A shell script in place of a candidate: $1 is its socket."""
    folder.mkdir(exist_ok=True)
    binary = folder / "program"
    binary.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    binary.chmod(0o755)
    return processes.start("p", binary, folder / "empty", processes.Limits(network=False))


def sleeper(folder: Path, name: str) -> Contender:
    one = Contender(name, folder, program(folder / name, "exec sleep 3600"))
    one.running().name = name
    return one


def contest_of(contenders: list[Contender], folder: Path, **limits: Any) -> contest.Contest:
    settings = contest.Settings(1, 1, 1, 2, processes.Limits(**limits))
    return contest.Contest(contenders, folder, settings, contest.Binaries(folder, folder))


def test_a_program_that_takes_too_much_memory_is_stopped(tmp_path, monkeypatch):
    held = {"small": 10, "large": 60}
    monkeypatch.setattr(processes.Program, "resident", lambda program: held[program.name])
    contenders = [sleeper(tmp_path, name) for name in held]
    crowd = contest_of(contenders, tmp_path, memory=50)
    watcher = threading.Thread(target=crowd._watch_memory, daemon=True)
    watcher.start()
    small, large = (contender.running() for contender in contenders)
    try:
        assert large.process.wait() == -9
    finally:
        crowd.over.set()
        watcher.join()
        crowd._close()
    assert "of host memory" in (large.killed_for or "")
    assert small.killed_for is None


@pytest.mark.parametrize(
    ("own", "later", "expected"),
    [
        ([210, 205, 1500], [205], None),
        ([205], [1500, 206], "its kernels ran on"),  # left behind after its last launch
        ([1500, 1496, 205], [1500, 206], "its kernels ran on"),  # freed somewhat later
        ([1500, 1496, 205], [1500] * 5, "another process used the GPU"),  # not this program
    ],
)
def test_a_program_that_leaves_kernels_running_is_identified(
    tmp_path, monkeypatch, own, later, expected
):
    names = ("baseline", "empty", "c0")
    alone = contest_of([sleeper(tmp_path, name) for name in names], tmp_path)
    spare_contenders(alone)
    alone.quiet_us = 200.0
    quiet = iter(later)
    monkeypatch.setattr(contest, "_IDLE_PAUSE_S", 0)
    monkeypatch.setattr(alone, "_quiet_us", lambda: next(quiet))
    suspect = alone.candidates[0]
    try:
        if expected is None:
            alone._look_for_others(suspect, own)
        else:
            with pytest.raises((Verdict, RefereeFailed), match=expected) as caught:
                alone._look_for_others(suspect, own)
            assert isinstance(caught.value, RefereeFailed) or caught.value.by_time
        assert (suspect.running().process.poll() is None) is (expected is None)
    finally:
        alone._close()
    assert next(quiet, None) is None


@pytest.mark.parametrize("name", ["baseline", "empty"])
def test_the_harness_programs_leave_no_kernels_running(tmp_path, monkeypatch, name):
    contenders = [sleeper(tmp_path, one) for one in ("baseline", "empty", "c0")]
    three = contest_of(contenders, tmp_path)
    spare_contenders(three)
    three.quiet_us = 200.0
    quiet = iter([1500.0, 206.0])  # somebody's kernel, which has ended by the second look
    monkeypatch.setattr(three, "_quiet_us", lambda: next(quiet))
    try:
        with pytest.raises(RefereeFailed, match="another process used the GPU"):
            three._look_for_others(getattr(three, name), [205.0])
    finally:
        three._close()


def spare_contenders(held: contest.Contest) -> None:
    """In a contest only one has a process at a time; the others would be taken for strays."""
    held.before |= {contender.running().process.pid for contender in held.contenders}


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two CPUs are needed")
def test_a_program_that_changes_the_cpus_of_a_peer_is_a_cheat(tmp_path, monkeypatch):
    alone = contest_of([sleeper(tmp_path, one) for one in ("baseline", "empty", "c0")], tmp_path)
    cpus = os.sched_getaffinity(0)
    turns = {
        "baseline": lambda *_: None,
        "c0": lambda *_: os.sched_setaffinity(0, {min(cpus)}),
    }
    monkeypatch.setattr(alone, "_leave", lambda _: None)
    monkeypatch.setattr(alone, "_check", lambda *_: None)
    try:
        for contender in (alone.baseline, alone.candidates[0]):
            monkeypatch.setattr(alone, "_turn", turns[contender.name])
            alone._take_turn(contender, [])
            assert os.sched_getaffinity(0) == cpus
    finally:
        os.sched_setaffinity(0, cpus)
        alone._close()
    assert alone.baseline.verdict is None
    found = alone.candidates[0].verdict
    assert found is not None
    assert (found.status, found.by_time) == ("CHEAT", False)


# --- what a candidate starts, and what it can read


def is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def started_by(one: processes.Program) -> int:
    """The number that it has written as its first line."""
    while b"\n" not in one.log:
        time.sleep(0.01)
    return int(one.log.split()[0])


@needs_proc
@pytest.mark.parametrize("parent", ["exec sleep 3600", "exit 7"])
def test_a_turn_ends_with_all_that_its_program_started(tmp_path, monkeypatch, parent):
    with isolation.guarded():
        alone = contest_of([], tmp_path)
        script = f"setsid sh -c 'echo $$; exec sleep 3600' & {parent}"
        suspect = Contender("c0", tmp_path, program(tmp_path / "c0", script))
        alone.contenders.append(suspect)
        monkeypatch.setattr(alone, "_quiet_us", lambda: 0.0)
        child = started_by(suspect.running())
        if parent == "exit 7":
            suspect.running().process.wait()
        try:
            assert is_running(child)
            alone._leave(suspect)
            assert not is_running(child)
            assert suspect.running().process.poll() is not None
        finally:
            alone._close()


@needs_proc
def test_the_end_of_a_contest_ends_what_is_left_and_no_process_of_before(tmp_path):
    with isolation.guarded(), subprocess.Popen(["sleep", "600"]) as other:
        alone = contest_of([], tmp_path)
        script = "setsid sh -c 'echo $$; exec sleep 3600' & exec sleep 3600"
        suspect = Contender("c0", tmp_path, program(tmp_path / "c0", script))
        alone.contenders.append(suspect)
        child = started_by(suspect.running())
        alone._close()
        try:
            assert not is_running(child)
            assert other.poll() is None
        finally:
            other.kill()


@needs_proc
def test_a_candidate_cannot_read_the_environment_of_the_scorer(tmp_path):
    with isolation.guarded():
        found = verdict(program(tmp_path, "cat /proc/$PPID/environ && echo read; exit 1"))
    assert "Permission denied" in found.log
    assert "read\n" not in found.log


@needs_proc
def test_the_scorer_is_as_it_was_afterwards():
    before = isolation._prctl(isolation._GET_DUMPABLE)
    with isolation.guarded():
        assert isolation._prctl(isolation._GET_DUMPABLE) == 0
    assert isolation._prctl(isolation._GET_DUMPABLE) == before


def test_the_referee_gets_no_more_of_the_environment_than_it_needs(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_OF_MINE", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    kept = processes._peer_environment()
    assert "SECRET_OF_MINE" not in kept
    assert kept["CUDA_VISIBLE_DEVICES"] == "3"


# --- a process that is not what it should be


def verdict(started: processes.Program, limit: float = 600) -> Verdict:
    with pytest.raises(Verdict) as caught:
        started.await_start(limit)
    started.close()
    return caught.value


def test_an_early_end_is_a_runtime_error_with_the_last_words(tmp_path, wording):
    found = verdict(program(tmp_path, "echo lost; exit 7"))
    assert found.status == "RUNTIME_ERROR"
    wording(found.why)
    assert "lost" in found.log


def test_a_program_that_hangs_is_killed_with_its_children(tmp_path):
    started = program(tmp_path, "sleep 3600 & sleep 3600")
    assert verdict(started, 0.3).status == "TIMEOUT"
    assert started.process.returncode == -9


def test_a_program_cannot_write_files_nor_see_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_OF_MINE", "1")
    found = verdict(
        program(tmp_path, "echo x > file && echo written; echo [$SECRET_OF_MINE]; pwd; exit 1")
    )
    assert "written" not in found.log
    assert "[]" in found.log
    assert str(tmp_path / "empty") in found.log


def test_a_flood_of_output_is_cut(tmp_path):
    started = program(tmp_path, "yes | head -c 300000; exit 1")
    verdict(started)
    while len(started.log) < 1000:
        time.sleep(0.02)
    assert 1000 <= len(started.log) <= 4000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "part"),
    [
        ("exit 3", "broke off|ended early: exit status 3"),
        ("sleep 3600", "did not answer within 0.5 s"),
        ("kill -9 $$", "broke off|ended early: SIGKILL"),
    ],
)
def test_a_failed_referee_is_not_counted_against_candidates(tmp_path, script, part):
    binary = tmp_path / "referee"
    binary.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    binary.chmod(0o755)
    peer = processes.start_peer("referee", binary)
    with pytest.raises(RefereeFailed, match=f"the referee (?:{part})"):
        peer.ask("facts", 0.5 if "3600" in script else 600)
    peer.close()
