"""Edits are compiled in a temporary folder; unsafe sources are rejected."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from keet.agent.edits import compiling, nvcc
from keet.agent.edits.compiler_output import (
    errors_in,
    flags_asked_for,
    kernel_named,
    kernels_in,
    plain_name,
)
from keet.agent.edits.compiling import (
    BuildOptions,
    Builds,
    Compiled,
    CompileError,
    CompileProblem,
    KernelResources,
    compile_edit,
    compile_source,
    find_nvcc,
)
from keet.agent.edits.includes import forbidden
from keet.agent.edits.nvcc import architecture, folders_on_disk
from keet.agent.edits.patch_making import LineReplacement, Patch, place_changes
from keet.analysis.launch_view import LaunchView
from keet.ingest import read_profile

SAMPLES = Path(__file__).parents[3] / "kernels_samples"
needs_nvcc = pytest.mark.skipif(find_nvcc() is None, reason="nvcc is not installed")

KERNEL = """\
__global__ void scale(float* y, float a, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] *= a;
}

void launch(float* y, int n) {
    scale<<<(n + 255) / 256, 256>>>(y, 2.0f, n);
}
"""
NAME = "_Z5scalePffi"
SM_90 = BuildOptions("9.0")


def patched(files: dict[str, str], *changes: LineReplacement) -> Patch:
    patch = place_changes(files, changes)
    assert isinstance(patch, Patch), patch
    return patch


OUTPUT = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN33_GLOBAL__N__e00141c6_4_a_cu__Z1ff3hidEPf' for 'sm_90'
ptxas info    : Function properties for _ZN33_GLOBAL__N__e00141c6_4_a_cu__Z1ff3hidEPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 1 barriers, 256 bytes smem
ptxas info    : Compiling entry function '_Z2tmIfEvPT_' for 'sm_90'
ptxas info    : Function properties for _Z1ff
    8 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads
ptxas info    : Function properties for _Z2tmIfEvPT_
    400 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 255 registers, 4096+16 bytes smem, 360 bytes cmem[0]
"""


def test_resources_are_read_per_kernel() -> None:
    kernels = kernels_in(OUTPUT)
    assert kernels["_Z2tmIfEvPT_"] == KernelResources("_Z2tmIfEvPT_", 255, 16, 24, 400, 4112)
    hidden = kernel_named(kernels, "_ZN33_GLOBAL__N__0badcafe_4_a_cu__Z1ff3hidEPf")
    assert hidden is not None
    assert (hidden.registers, hidden.shared) == (10, 256)


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        (NAME, "scale"),
        ("_ZN33_GLOBAL__N__e00141c6_4_a_cu__Z1ff3hidEPf", "hid"),
        ("_Z2tmIfEvPT_", "tm"),
        ("_ZN2ns3sub4gemmILi4EEEvPf", "gemm"),
        ("_ZL5scalePf", "scale"),
        ("plain", "plain"),
        ("_Z", ""),
        ("_Z999x", "x"),
        ("", ""),
    ],
)
def test_the_plain_name_of_a_kernel(mangled: str, name: str) -> None:
    assert plain_name(mangled) == name


def test_a_kernel_is_found_by_its_name_only_where_one_has_it() -> None:
    one = KernelResources("_Z5scalePffi", 8, 0, 0, 0, 0)
    two = KernelResources("_Z5scalePddi", 12, 0, 0, 0, 0)
    assert kernel_named({one.mangled: one}, "_Z5scalePKffi") == one
    assert kernel_named({one.mangled: one, two.mangled: two}, "_Z5scalePKffi") is None
    assert kernel_named({one.mangled: one, two.mangled: two}, two.mangled) == two


def test_errors_have_a_place_and_are_few_and_short() -> None:
    output = (
        '/tmp/keet-compile-x/tree/src/k.cu(6): error: identifier "undefined_thing" is undefined\n'
        "  __attribute__((global)) void k(float*x){ undefined_thing; }\n      ^\n\n"
        "/tmp/keet-compile-x/tree/k.cu:1:10: fatal error: problem.h: No such file or directory\n"
        "/usr/local/cuda/include/crt/host_defines.h(8): error: #error -- unsupported\n"
        "ptxas error   : Entry function '_Z1k' uses too much shared data\n"
        "/etc/passwd:1: Error: no such instruction: `root:x:0'\n"
    )
    errors = errors_in(output, "/tmp/keet-compile-x/tree")
    assert errors[0] == CompileError("src/k.cu", 6, 'identifier "undefined_thing" is undefined')
    assert [str(error) for error in errors[1:]] == [
        "k.cu:1: problem.h: No such file or directory",
        "host_defines.h:8: #error -- unsupported",
        "Entry function '_Z1k' uses too much shared data",
    ]
    many = "".join(f"k.cu({n}): error: {'x' * 999}\n" for n in range(50))
    assert len(errors_in(many, "/tmp")) == 5
    assert all(len(str(error)) < 230 for error in errors_in(many, "/tmp"))
    escape = errors_in("k.cu(1): error: \x1b[31mred\n", "/tmp")[0]
    assert escape.text == "\\x1b[31mred"


def test_flags_that_nvcc_asks_for() -> None:
    assert flags_asked_for("... use --expt-relaxed-constexpr to allow it") == (
        "--expt-relaxed-constexpr",
    )
    assert flags_asked_for("ptxas fatal   : Unresolved extern function '_Z1ff'") == ("-rdc=true",)
    assert flags_asked_for('error: identifier "x" is undefined') == ()


@pytest.mark.parametrize(
    "text",
    [
        '#include "/etc/passwd"',
        "#include </etc/passwd>",
        '  #  include  "/etc/passwd"',
        '#inc\\\nlude "/etc/passwd"',
        '#include \\\n "/etc/passwd"',
        '/* a */ # /* b */ include /* c */ "/etc/passwd"',
        '%:include "/etc/passwd"',
        '??=include "/etc/passwd"',
        '#include "../../../../etc/passwd"',
        "#include <../../../etc/passwd>",
        '#include "a/../../../etc/shadow"',
        '#define WHERE "/etc/passwd"\n#include WHERE',
        '#include_next "/etc/passwd"',
        '#import "/etc/passwd"',
        '#embed "/etc/passwd"',
        '#line 1 "/etc/passwd"',
        '# 1 "/etc/passwd"',
        '#if __has_include("/etc/passwd")\n#endif',
        '#pragma GCC dependency "/etc/passwd"',
        'asm(".incbin \\"/etc/passwd\\"");',
        '#include "/opt/src/../../etc/passwd"',
        '#include "~/secret.h"',
        '#include "C:/secret.h"',
        '"unclosed\n#include "/etc/passwd"',
        "/* open */ int a; // \\\n\n#include </etc/passwd>",
    ],
)
def test_sources_that_read_other_files_are_refused(text: str) -> None:
    files = {"/opt/src/k.cu": text + "\n" + KERNEL}
    problem = compile_source(files, "/opt/src/k.cu", SM_90)
    assert forbidden(files, ["/opt/src"])
    if find_nvcc():
        assert isinstance(problem, CompileProblem)
        assert problem.kind == "refused"
        assert "root:" not in problem.message


@pytest.mark.parametrize(
    "text",
    [
        "#include <cuda_runtime.h>\n#include <vector>",
        '#include "../common/check.h"',
        '#include "/opt/src/k.h"',
        '// #include "/etc/passwd"\n/* #include "/etc/passwd" */',
        '#pragma unroll\n#line 7\nconst char* text = "#include";',
        'const char* path = "/etc/passwd";  // only a name',
    ],
)
def test_ordinary_sources_are_not_refused(text: str) -> None:
    assert forbidden({"/opt/src/k.cu": text}, ["/opt/src"]) is None


@pytest.mark.slow
def test_an_edit_may_not_read_other_files_either() -> None:
    if find_nvcc() is None:
        pytest.skip("nvcc is not installed")
    files = {"k.cu": KERNEL}
    patch = patched(files, LineReplacement("k.cu", "", '#include "/etc/passwd"', 0))
    result = compile_edit(files, patch, NAME, SM_90)
    assert result.outcome == "fails"
    assert "outside of its folder" in result.message
    assert "root:" not in repr(result)


def test_folders_are_searched_only_where_the_source_is_really_there(tmp_path: Path) -> None:
    """A report can name any folder: its headers would show up in messages."""
    path = tmp_path / "k.cu"
    path.write_text(KERNEL)
    assert folders_on_disk({str(path): KERNEL.replace("\n", "\r\n")}) == [str(tmp_path)]
    assert folders_on_disk({str(path): KERNEL + "\n"}) == []
    assert folders_on_disk({str(tmp_path / "other.cu"): KERNEL}) == []
    (tmp_path / "host.conf").write_text("multi on\n")
    assert folders_on_disk({str(tmp_path / "host.conf"): "multi on\n"}) == []
    assert folders_on_disk({"k.cu": KERNEL, "nul\0.cu": KERNEL}) == []


def test_flags_that_name_files_or_programs_are_left_out() -> None:
    flags = (
        "-std=c++17",
        "-O3",
        "-DN=4",
        "-ccbin=/tmp/evil",
        "-include",
        "/etc/passwd",
        "-run",
        "-D",
        "M=2",
        "-I/etc",
        "-Xcompiler",
        "-B/tmp",
        "--keep",
    )
    known, unknown = compiling._known_flags(flags)
    assert known == ("-std=c++17", "-O3", "-DN=4", "-DM=2")
    assert unknown == [
        "-ccbin=/tmp/evil",
        "-include",
        "/etc/passwd",
        "-run",
        "-I/etc",
        "-Xcompiler",
        "-B/tmp",
        "--keep",
    ]


def test_unsupported_architectures_are_replaced_with_a_note(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nvcc, "_architectures", lambda path: (75, 80, 86, 90, 100, 120))
    assert architecture("nvcc", "9.0") == ("sm_90", "")
    assert architecture("nvcc", "7.0") == (
        "sm_75",
        "compiled for sm_75: this nvcc does not have sm_70",
    )
    assert architecture("nvcc", "8.9")[0] == "sm_86"
    assert architecture("nvcc", "12.1")[0] == "sm_120"
    assert architecture("nvcc", "13.0")[0] == "sm_120"
    assert architecture("nvcc", None)[0] == "sm_120"
    assert architecture("nvcc", "9.0; rm -rf")[0] == "sm_120"
    monkeypatch.setattr(nvcc, "_architectures", lambda path: ())
    assert architecture("nvcc", "9.0") == (None, "nvcc does not run on this machine")


def test_without_nvcc_nothing_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "find_nvcc", lambda: None)
    files = {"k.cu": KERNEL}
    result = compile_edit(
        files, patched(files, LineReplacement("k.cu", "y[i] *= a", "y[i] = a")), NAME, SM_90
    )
    assert (result.outcome, result.message) == (
        "not checked",
        "not compiled: nvcc was not found on this machine",
    )


def test_nvcc_is_found_in_the_folder_of_the_toolkit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / "nvcc"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert find_nvcc() == str(tool)


def test_python_kernels_are_parsed_only() -> None:
    files = {"k.py": "def f(x):\n    y = x + 1\n    return y\n"}
    good = compile_edit(
        files, patched(files, LineReplacement("k.py", "    y = x + 1", "    y = x + 2")), "f"
    )
    assert good.outcome == "not checked"
    assert "only its syntax was checked" in good.message
    bad = compile_edit(
        files, patched(files, LineReplacement("k.py", "    y = x + 1", "    y = (x + 2")), "f"
    )
    assert bad.outcome == "fails"
    assert bad.errors[0].line == 2
    deep = {"k.py": "x = 1\n"}
    nested = patched(deep, LineReplacement("k.py", "x = 1", "x = " + "(" * 500 + "1" + ")" * 500))
    assert compile_edit(deep, nested, "f").outcome == "fails"


@pytest.fixture
def slow_tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Stands in for nvcc: starts another program, and does not end."""
    tool = tmp_path / "nvcc"
    tool.write_text(
        f"#!/bin/sh\nenv > {tmp_path}/environment\nsleep 3600 &\necho $! > {tmp_path}/child\nwait\n"
    )
    tool.chmod(0o755)
    monkeypatch.setattr(compiling, "find_nvcc", lambda: str(tool))
    monkeypatch.setattr(nvcc, "_architectures", lambda path: (90,))
    return tmp_path


def test_a_hanging_compiler_is_killed_with_its_children(
    slow_tool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = slow_tool / "child"

    class Started(subprocess.Popen):  # type: ignore[type-arg]
        """Its time begins when it has started the other program, however late that is."""

        def wait(self, timeout: float | None = None) -> int:
            while timeout is not None and not (child.exists() and child.read_text()):
                time.sleep(0.02)
            return super().wait(timeout)

    monkeypatch.setattr(nvcc.subprocess, "Popen", Started)
    monkeypatch.setenv("SECRET_TOKEN", "hidden")
    result = compile_source({"k.cu": KERNEL}, "k.cu", SM_90._replace(timeout=0.2))
    assert isinstance(result, CompileProblem)
    assert result.message == "compiling took longer than 0.2 s"
    while _runs(int(child.read_text())):  # `sleep` would go on for an hour
        time.sleep(0.05)
    seen = (slow_tool / "environment").read_text()
    assert "SECRET_TOKEN" not in seen
    assert "HOME=/" in seen


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


@needs_nvcc
@pytest.mark.slow
def test_an_edit_is_compiled_beside_the_original() -> None:
    files = {"/not/here/k.cu": KERNEL}
    builds: Builds = {}
    new = "    __shared__ float all[1024];\n    all[threadIdx.x] = y[i];\n    __syncthreads();\n    if (i < n) y[i] = a * all[1023 - threadIdx.x];"
    patch = patched(files, LineReplacement("k.cu", "    if (i < n) y[i] *= a;", new))
    result = compile_edit(files, patch, NAME, SM_90, builds)
    assert result.outcome == "compiles", result
    assert result.before is not None
    assert result.after is not None
    assert (result.before.shared, result.after.shared) == (0, 4096)
    assert result.before.registers > 0
    assert "0 -> 4,096 bytes of static shared memory" in result.message
    assert result.arch == "sm_90"
    assert len(builds) == 2
    worse = patched(files, LineReplacement("k.cu", "y[i] *= a", "y[i] *= b"))
    failed = compile_edit(files, worse, NAME, SM_90, builds)
    assert len(builds) == 3  # the original was not compiled again
    assert failed.outcome == "fails"
    assert [str(error) for error in failed.errors] == ['k.cu:3: identifier "b" is undefined']
    assert failed.message == 'does not compile for sm_90: k.cu:3: identifier "b" is undefined'


@needs_nvcc
@pytest.mark.slow
def test_spills_are_reported() -> None:
    body = "    float v[60];\n    for (int k = 0; k < 60; ++k) v[k] = y[i + k * n];\n    for (int k = 0; k < 60; ++k) y[i + k] = v[59 - k] * v[(k * 7) % 60];\n"
    files = {"k.cu": KERNEL.replace("    if (i < n) y[i] *= a;\n", "#pragma unroll\n" + body)}
    patch = patched(
        files,
        LineReplacement(
            "k.cu", "__global__ void scale(", "__global__ void __launch_bounds__(1024, 2) scale("
        ),
    )
    result = compile_edit(files, patch, NAME, SM_90)
    assert result.after is not None
    assert result.after.registers <= 32
    assert result.after.spill_stores > 0
    assert "bytes spilled and reloaded" in result.message


@needs_nvcc
def test_an_original_that_does_not_compile_is_not_the_edits_fault() -> None:
    files = {"k.cu": '#include "not_at_hand.h"\n' + KERNEL}
    result = compile_edit(
        files, patched(files, LineReplacement("k.cu", "y[i] *= a", "y[i] *= nonsense")), NAME, SM_90
    )
    assert result.outcome == "not checked"
    assert result.message == "not compiled: the report does not contain not_at_hand.h"
    assert result.errors == ()


@needs_nvcc
@pytest.mark.slow
def test_headers_come_from_the_edited_sources_then_from_the_users_folder(tmp_path: Path) -> None:
    (tmp_path / "on_disk.h").write_text("#pragma once\nconstexpr int kDisk = 1;\n")
    main = tmp_path / "k.cu"
    text = '#include "own.h"\n#include "on_disk.h"\n' + KERNEL.replace(
        "*= a", "*= a * kOwn * kDisk"
    )
    main.write_text(text)
    files = {str(main): text, str(tmp_path / "own.h"): "constexpr int kOwn = 2;\n"}
    patch = patched(
        files, LineReplacement("own.h", "constexpr int kOwn = 2;", "constexpr int kOwn = 3;")
    )
    before = sorted(path.name for path in tmp_path.iterdir())
    assert compile_edit(files, patch, NAME, SM_90).outcome == "compiles"
    broken = patched(
        files, LineReplacement("own.h", "constexpr int kOwn = 2;", "constexpr int kOther = 3;")
    )
    failed = compile_edit(files, broken, NAME, SM_90)
    assert str(failed.errors[0]) == 'k.cu:5: identifier "kOwn" is undefined'
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert main.read_text() == text


@needs_nvcc
@pytest.mark.slow
def test_flags_of_the_build_are_found_out() -> None:
    code = """
template <class T> concept Any = true;
template <Any T> __device__ T same(T x) { return x; }
constexpr int twice(int n) { return 2 * n; }
extern __device__ int elsewhere(int);
__global__ void k(int* x) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 104;");
    x[0] = elsewhere(twice(same(x[1])));
}
"""
    result = compile_source({"k.cu": code}, "k.cu", SM_90)
    assert isinstance(result, Compiled), result
    assert set(result.flags) == {"--expt-relaxed-constexpr", "-rdc=true", "-std=c++20"}
    assert result.arch == "sm_90a"


@needs_nvcc
@pytest.mark.parametrize(
    "code",
    [
        pytest.param(
            "template <int N> struct Deep { Deep<N + 1> next; };\nDeep<0> all;\n" + KERNEL,
            id="endless templates",
        ),
        pytest.param('#include "k.cu"\n' + KERNEL, id="includes itself"),
        pytest.param("x" * 100_000, id="one long word"),
        pytest.param("\0\x01\xff", id="no text"),
        pytest.param("#error " + "y" * 50_000, id="long message"),
    ],
)
@pytest.mark.slow
def test_hostile_sources_end_in_a_short_message(code: str) -> None:
    result = compile_source({"k.cu": code}, "k.cu", SM_90._replace(timeout=30))
    assert isinstance(result, CompileProblem)
    assert len(result.message) < 400
    assert len(repr(result.errors)) < 3000


@needs_nvcc
@pytest.mark.slow
def test_an_endless_constexpr_hits_the_time_limit() -> None:
    code = "constexpr int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\nstatic_assert(f(60) > 0);\n"
    result = compile_source({"k.cu": code}, "k.cu", SM_90._replace(timeout=3))
    assert isinstance(result, CompileProblem)


@needs_nvcc
@pytest.mark.slow
def test_a_sample_compiles_with_the_registers_of_its_report() -> None:
    path = SAMPLES / "score_tiles" / "slow.cu"
    launch = read_profile(path.with_suffix(".ncu-rep")).launches[0]
    options = BuildOptions(launch.device.compute_capability, ("-std=c++17", "-O3", "-lineinfo"))
    result = compile_source({str(path): path.read_text(encoding="utf-8")}, str(path), options)
    assert isinstance(result, Compiled), result
    kernel = kernel_named(result.kernels, launch.name.mangled)
    assert kernel is not None
    assert kernel.registers == LaunchView(launch).value("registers_per_thread")
    assert kernel.shared == LaunchView(launch).value("shared_memory_static")
