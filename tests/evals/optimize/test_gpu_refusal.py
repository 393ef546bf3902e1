"""What a candidate is refused for before it runs: by its source, and by its symbols."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from evals.optimize.gpu.scorer import source, symbols
from evals.optimize.gpu.scorer.common import HERE
from tests.rows import each_row

SAMPLES = Path(__file__).parents[3] / "kernels_samples"
EXPLOITS = HERE / "exploits"
HONEST = """#include "problem.h"
#include <cuda_runtime.h>
// main() of the harness uses printf and std::thread: only said, not done.
__global__ void flip(const float* in, float* out) { asm volatile("bar.sync 0;"); }
void launch(const Problem& problem) {
    const char* name = "fopen(system())";  /* getenv */
    flip<<<1, 1>>>(problem.in, problem.out);
}
"""
LAUNCH = "_Z6launchRK7Problem"
HARNESS = symbols.read_symbols(
    "_ZN7harness6Random4bitsEv T 0 10\n_Z12problem_mainiPPc T 0 10\ncudaEventRecord U\n"
    f"memcpy U\n_ZNSt6vectorIiSaIiEE7reserveEm U\n_ZNSt6vectorIfSaIfEE9push_backEOf W 0 8\n{LAUNCH} U\n"
)


def test_an_honest_source_is_not_refused():
    assert source.source_refusal(HONEST) is None


@pytest.mark.parametrize("variant", ["slow", "fast"])
def test_no_sample_is_refused(variant):
    sources = sorted(SAMPLES.glob(f"*/{variant}.cu"))
    assert len(sources) == 33
    for path in sources:
        headers = [each.name for each in path.parent.glob("*.h")]
        assert source.source_refusal(path.read_text(encoding="utf-8"), headers) is None, path


@each_row(
    ("line", "part"),
    [
        ('#include "../harness/harness.h"', "harness.h"),
        ("#include <fstream>", "fstream"),
        ("#  include <thread>", "thread"),
        ("#include NAME", "NAME"),
        ("%:include <chrono>", "chrono"),
        ("#include \\\n <unistd.h>", "unistd.h"),
        ('#include "/etc/passwd"', "/etc/passwd"),
        ('#include_next "problem.h"', "problem.h"),
        ('extern "C" int x;', 'extern "C"'),
        ("int main(int, char**);", "main"),
        ("__attribute__((constructor)) void early();", "constructor"),
        ("harness::Run* run;", "harness"),
        ("auto t = std::chrono::now();", "chrono"),
        ("cudaEventElapsedTime(&ms, a, b);", "cudaEventElapsedTime"),
        ('FILE* f = fopen("x", "r");', "fopen"),
        ("system(command);", "system"),
        ("std :: thread worker;", "thread"),
        ('printf("0.1 us");', "printf"),
        ('fprintf(file, "0.1 us");', "fprintf"),
        ('std::fputs("0.1 us", stdout);', "fputs"),
        ("get\\\nenv(x);", "getenv"),
        ('asm volatile("syscall");', "syscall"),
        ('asm(".globl cudaEventRecord");', ".globl"),
        ('asm volatile("sys" "call");', "syscall"),
        ('long reply(int, const void*, long) __asm__("write");', "(write)"),
        ('long reply(int) noexcept asm ( "wri" /* - */\n"te" );', "(write)"),
        ("stderr->_fileno = 5;", "_fileno"),
        ("struct _IO_FILE* file;", "_IO_FILE"),
        ("void* up = __builtin_frame_address(0);", "__builtin_frame_address"),
        ("void* up = __builtin_return_address(0);", "__builtin_return_address"),
        ("int a = 1'0; char* hidden() { return getenv(x); } int b = 1'0;", "getenv"),
        ("auto a = L'\"'; char* hidden() { return getenv(x); } auto b = L'\"';", "getenv"),
        ('const char* a = XR"(" getenv(x) ")";', "getenv"),
        ('std::snprintf(text, 9, "x");', "snprintf"),
        ("cudaLaunchHostFunc(s, f, p);", "cudaLaunchHostFunc"),
        ("cudaGetDriverEntryPointByVersion(a);", "cudaGetDriverEntryPointByVersion"),
        ("extern unsigned long _GLOBAL_OFFSET_TABLE_[];", "_GLOBAL_OFFSET_TABLE_"),
        ("extern char __init_array_start[];", "__init_array_start"),
        ("cudaEventRecord(reinterpret_cast<cudaEvent_t>(value), s);", "event of a number"),
        ("cudaEventRecord((cudaEvent_t)(own - 64), s);", "event of a number"),
        ("cudaEvent_t theirs = ( cudaEvent_t ) address;", "event of a number"),
    ],
)
def test_forbidden_lines_are_named(line, part):
    why = source.source_refusal(f'#include "problem.h"\n{line}\n')
    assert why is not None
    assert part in why


@each_row(
    "line",
    [
        "#include <cooperative_groups/memcpy_async.h>",
        "#include <cub/cub.cuh>",
        "#include <cuda/std/array>",
        "#include <cuda/pipeline>",
        "#include <mma.h>",
        "#include <cmath>",
        "#include <cstdint>",
        "float domain(float x); int remain; bool systematic;",
        "cudaEventRecord(done, side); cudaStreamWaitEvent(nullptr, done, 0);",
        "cudaGraphLaunch(graph, stream);",
        "cudaEvent_t done = (cudaEvent_t)0; cudaEvent_t late = (cudaEvent_t)nullptr;",
        "void wait_for(cudaEvent_t); std::vector<cudaEvent_t> all(sizeof(cudaEvent_t));",
        'extern "C" __global__ void flip(const float* in);',
        "__device__ void signal(int* flag); signal(done);",
        "cudaMallocAsync(&room, bytes, stream);",
        '#include <cstdio>\n#define CHECK(e) if (e) { fprintf(stderr, "%d", e); exit(1); }',
        'asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(a), "l"(b));',
        "const char quote = '\"'; const int big = 1'000'000;",
        "constexpr int kN = 1'000;  // it's main() here\nconstexpr float kE = 1e-5f + 0x1p-60f;",
        'if (e) { std::fputs("bad", stderr); fputs(cudaGetErrorString(e), stderr); }',
        "#include <new>\n#include <set>\n#include <deque>",
        'if (late) asm volatile("trap;"); asm("");',
        'asm volatile("{ .reg .pred p;\\n" "  setp.ne.b32 p, %0, 0; }" :: "r"(a) : "memory");',
    ],
)
def test_legitimate_lines_are_not_refused(line):
    assert source.source_refusal(f'#include "problem.h"\n{line}\n') is None


def candidate(text: str) -> str | None:
    return symbols.symbol_refusal(symbols.read_symbols(f"{LAUNCH} T 0 10\n{text}"), HARNESS)


NVCC = """_Z4flipPKfPfi T 0 10
__cudaRegisterFatBinary U
__cudaPushCallConfiguration U
cudaMemsetAsync U
cudaGraphLaunch U
cudaEventRecord U
atexit U
exit U
__cxa_guard_acquire U
__gxx_personality_v0 U
_Unwind_Resume U
memcpy U
_ZSt20__throw_length_errorPKc U
_Znwm U
pthread_once U
__once_proxy U
_ZSt15__once_callable U
snprintf U
__snprintf_chk U
my_buffer B 0 8
_ZNSt8ios_base4InitC1Ev U
stderr U
__fprintf_chk U
fwrite U
_ZdlPvm U
_ZNSt6vectorIfSaIfEE9push_backEOf W 0 8
_ZNSt6vectorIfSaIfEE7reserveEm W 0 8
fatbinData r 0 8
"""


def test_what_nvcc_and_the_standard_library_bring_is_allowed():
    assert candidate(NVCC) is None


@each_row(
    "needed",
    [
        *("fopen", "open", "write", "printf", "__printf_chk", "system", "popen", "fork", "execve"),
        *("dlsym", "getenv", "clock_gettime", "gettimeofday", "cudaEventElapsedTime", "syscall"),
        *("cudaLaunchHostFunc", "cudaStreamAddCallback", "cudaDeviceReset", "pthread_create"),
        *(
            "mprotect",
            "ptrace",
            "_ZN7harness6Random4bitsEv",
            "_Z12problem_mainiPPc",
            "cuLaunchKernel",
        ),
        *("_ZNSt6thread15_M_start_threadE", "_ZNSt6chrono3_V212steady_clock3nowEv", "_ZSt4cout"),
        *("socket", "fork@GLIBC_2.17", "_GLOBAL_OFFSET_TABLE_", "_DYNAMIC"),
    ],
)
def test_calls_that_no_launch_needs_are_named(needed):
    why = candidate(f"{NVCC}{needed} U\n")
    assert why is not None
    assert needed.partition("@")[0] in why


@each_row(
    "defined",
    [
        *("cudaEventRecord T", "cudaEventElapsedTime W", "main T", "memcpy T", "clock_gettime T"),
        *("memcpy W", "write W", "snprintf V", "read u", "_ZNSt6vectorIiSaIiEE7reserveEm W"),
        *(
            "_ZN7harness3Run6finishEv T",
            "_ZNSt6vectorIfSaIfEE9push_backEOf T",
            "__cudaLaunchKernel T",
        ),
    ],
)
def test_taking_the_place_of_a_function_is_named(defined):
    why = candidate(f"{NVCC}{defined} 0 8\n")
    assert why is not None
    assert defined.split()[0] in why


def test_the_list_of_exploits_and_its_files_agree():
    listed = tomllib.loads((EXPLOITS / "exploits.toml").read_text(encoding="utf-8"))["program"]
    own = [entry["id"] for entry in listed if not entry.get("fast")]
    assert sorted(own) == sorted(path.stem for path in EXPLOITS.glob("*.cu"))
    statuses = {status for entry in listed for status in entry["expect"]}
    assert statuses == {
        *("PASSED", "COMPILE_ERROR", "RUNTIME_ERROR", "INCORRECT", "TIMEOUT", "CHEAT")
    }
    assert all((SAMPLES / entry["sample"] / "fast.cu").exists() for entry in listed)


def test_only_exploits_that_must_be_caught_are_refused():
    listed = tomllib.loads((EXPLOITS / "exploits.toml").read_text(encoding="utf-8"))["program"]
    refused = {
        entry["id"]
        for entry in listed
        if not entry.get("fast")
        and source.source_refusal((EXPLOITS / f"{entry['id']}.cu").read_text(encoding="utf-8"))
    }
    assert refused <= {entry["id"] for entry in listed if entry["expect"] == ["CHEAT"]}
    assert {"flip_spawns", "flip_prints_a_time", "flip_host_assembly"} <= refused
    assert "flip_hidden_name" not in refused  # that is for the symbols to show
