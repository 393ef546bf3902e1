"""Edits are compiled in a temporary folder, by a compiler that sees no other file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from keet.agent.edits import compiling
from keet.agent.edits import confinement as confining
from keet.agent.edits.compiling import (
    BuildOptions,
    CompileProblem,
    KernelResources,
    compile_edit,
    compile_source,
    find_nvcc,
    kernel_named,
    messages_in,
)
from keet.agent.edits.confinement import Headers, Kind, kind_of_confinement, project_of
from keet.agent.edits.line_matching import LineReplacement, place_changes
from keet.agent.edits.patches import Patch
from keet.analysis.launch_view import LaunchView
from keet.profile.launch import KernelName
from keet.report import read_profile
from keet.source_code.kernel_source import kernel_files
from kernels_samples.samples import report_of
from tests.rows import each_row
from tests.unit.agent.source_launch import launch_of
from tests.unit.collect.toolkit import program_at

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
HEAD, WRITES = KERNEL.splitlines()[0], KERNEL.splitlines()[2]
NAME = KernelName("scale", "scale(float*, float, int)", "_Z5scalePffi")
F = KernelName("f", "", "")
SM_90 = BuildOptions("9.0")


def patched(files: dict[str, str], *changes: LineReplacement) -> Patch:
    patch = place_changes(files, changes)
    assert isinstance(patch, Patch), patch
    return patch


def replaced(old: str, new: str) -> LineReplacement:
    """In the line of the kernel that writes."""
    return LineReplacement("k.cu", WRITES, WRITES.replace(old, new))


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
    """A kernel is found by its name only where one has it."""
    kernels = compiling.kernels_in(OUTPUT)
    assert kernels["_Z2tmIfEvPT_"] == KernelResources(255, 40, 400, 4112)
    other = KernelName("hid", "", "_ZN33_GLOBAL__N__0badcafe_4_a_cu__Z1ff3hidEPf")
    hidden = kernel_named(kernels, other)
    assert (hidden.registers, hidden.shared) == (10, 256)
    one, two = KernelResources(8, 0, 0, 0), KernelResources(12, 0, 0, 0)
    other, plain = KernelName("scale", "", "_Z5scalePKffi"), KernelName("scale", "", "")
    both = {"_Z5scalePffi": one, "_Z5scalePddi": two}
    assert kernel_named({"_Z5scalePffi": one, "_Z4sinkPf": two}, other) == one
    assert (kernel_named(both, other), kernel_named(both, NAME)) == (None, one)
    assert kernel_named({"scale": one, "_Z6rescalePf": two}, plain) == one


def test_errors_have_a_place_and_are_few_and_short(wording) -> None:
    output = (
        '/tmp/keet-compile-x/tree/src/k.cu(6): error: identifier "undefined_thing" is undefined\n'
        "  __attribute__((global)) void k(float*x){ undefined_thing; }\n      ^\n\n"
        "/tmp/keet-compile-x/tree/k.cu:1:10: fatal error: problem.h: No such file or directory\n"
        "/usr/local/cuda/include/crt/host_defines.h(8): error: #error -- unsupported\n"
        '/tmp/keet-compile-x/tree/../../keys.h(3): error #20: identifier "swordfish" is undefined\n'
        "ptxas error   : Entry function '_Z1k' uses too much shared data\n"
        "/etc/passwd:1: Error: no such instruction: `root:x:0'\n"
    )
    first, *others = messages_in(output, "/tmp/keet-compile-x/tree")[0]
    assert first[:] == ("src/k.cu", 6, 'identifier "undefined_thing" is undefined')
    wording([str(error) for error in others])
    lines = "".join(f"/tmp/k.cu({n}): error: {'x' * 999}\n" for n in range(50))
    many = messages_in(lines, "/tmp")[0]
    assert (len(many), max(len(str(error)) for error in many) < 230) == (5, True)
    escape = messages_in("/tmp/k.cu(1): error: \x1b[31mred\n", "/tmp")[0][0]
    assert escape.text == "\\x1b[31mred"


def test_new_warnings_are_told_wherever_they_moved(wording) -> None:
    unused = 'warning #177-D: variable "{}" was declared but never referenced'
    before = f"/t/k.cu(6): {unused.format('a')}\n/usr/include/x.h(3): warning: old\n"
    after = f"/t/k.cu(8): {unused.format('a')}\n/t/k.cu(9): {unused.format('b')}\n"
    after += f"/t/k.cu(9): {unused.format('b')}\nptxas warning : Value of threads is too large\n"
    many = "".join(f"/t/k.cu({n}): {unused.format(n)}\n" for n in range(9))
    old, new, all_new = (messages_in(text, "/t")[1] for text in (before, after, many))
    wording(compiling.new_warnings(old, new))
    assert len(compiling.new_warnings((), all_new)) == 3


def test_flags_that_nvcc_asks_for() -> None:
    asked_for = compiling.flags_asked_for
    assert asked_for("... use --expt-relaxed-constexpr to") == ["--expt-relaxed-constexpr"]
    assert asked_for("ptxas fatal   : Unresolved extern function '_Z1ff'") == ["-rdc=true"]
    assert asked_for('error: identifier "x" is undefined') == []


@pytest.fixture(params=["namespaces", "library"])
def confinement(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kind:
    """Compile with either kind, whichever this system would choose."""
    kind: Kind = request.param
    if kind == "namespaces" and kind_of_confinement("/bin/true") != kind:
        pytest.skip("this system has no user namespaces")
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    monkeypatch.setattr(compiling, "kind_of_confinement", lambda nvcc: kind)
    return kind


SECRET = "swordfish"
"""Content of a file that no source may reach; an undefined name, so that compilers would quote it."""


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    (tmp_path / "private").mkdir()
    path = tmp_path / "private" / "secret.h"
    path.write_text(f"int a = {SECRET};\n")
    return path


def stand_in(folder: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell script in place of nvcc. `$main` is the source that it is to compile."""
    script = '#!/bin/sh\n[ "$1" = --dryrun ] && exit 0\nfor main in "$@"; do :; done\n'
    tool = program_at(folder / "toolkit" / "bin" / "nvcc", f"{script}{body}\n")
    monkeypatch.setattr(compiling, "find_nvcc", lambda: str(tool))
    monkeypatch.setattr(compiling, "_architectures", lambda path: (90,))


LEAKS = (
    "cat {path}",
    "cat $(dirname $main)/../../{above}{path}",
    "cat < {path}",
    "read line < {path}; echo $line",
    "cd {folder} && cat secret.h",
    "ln -s {path} $TMPDIR/link.h; cat $TMPDIR/link.h",
    "cat /proc/self/root{path}",
    "cat /proc/$PPID/root{path}",
    "cp {path} $TMPDIR/copy; cat $TMPDIR/copy",
    "env -u LD_PRELOAD true; [ -e {path} ] && echo swordfish exists",
    "ls {folder} | sed s/secret.h/swordfish/",
)


def test_a_compiler_sees_no_other_file(
    confinement: Kind, secret: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in that tries on purpose what a real one could be led to."""
    above = "../" * 12
    values = {"path": secret, "folder": secret.parent, "above": above}
    body = "\n".join(
        f'echo "$main({n}): error: $({leak.format(**values)} 2>&1)" | tr "\\n" " "; echo'
        for n, leak in enumerate(LEAKS, 1)
    )
    stand_in(tmp_path, f"{body}\nexit 1", monkeypatch)
    monkeypatch.setattr("keet.agent.edits.compiling.MOST_ERRORS", len(LEAKS))
    result = compile_source({"/opt/src/k.cu": KERNEL}, "/opt/src/k.cu", SM_90)
    assert isinstance(result, CompileProblem)
    assert [error.line for error in result.errors] == list(range(1, len(LEAKS) + 1))
    assert SECRET not in repr(result)


@pytest.mark.slow
def test_a_compiler_gets_the_sources_no_variables_and_no_flags_that_name_files_or_programs(
    confinement: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", SECRET)
    body = 'echo "$main(1): error: $* $(head -1 $main) $(env | tr "\\n" " ")"; exit 1'
    stand_in(tmp_path, body, monkeypatch)
    monkeypatch.setattr("keet.agent.edits.compiling.LONGEST_MESSAGE", 10_000)
    flags = ("-ftz=true", "-ccbin=/tmp/evil", "-include", "/etc/passwd", "-run", "-I/etc", "-DA=1")
    result = compile_source({"k.cu": KERNEL}, "k.cu", SM_90._replace(flags=flags))
    assert isinstance(result, CompileProblem)
    for part in ("__global__ void scale", "TMPDIR=/", "-ftz=true"):
        assert part in result.message
    assert not any(part in result.message for part in (SECRET, *flags[1:]))


READS = (
    '#include "{path}"',
    "#include <../../../../../../../../../..{path}>",
    '#include_next "{path}"',
    '#import "{path}"',
    '#line 1 "{path}"\n#include "{path}"',
    '#pragma GCC dependency "{path}"\nint a = missing;',
    '#define P(a, b) a##b\n#define WHERE "{path}"\n#if P(__has_, include)(WHERE)\n#error there\n#endif',
    '#if __has_include("{path}")\n#error there\n#endif\n#if __has_include(<{path}>)\n#error there\n#endif\n'
    '#if __has_include("{folder}/../../../../../../usr/include/stdio.h")\n#error there\n#endif\n'
    '#if __has_include("{folder}/none/../../x.h")\n#error there\n#endif\nint a = missing;',
    '__device__ void f() {{ asm(".include \\"{path}\\""); }}',
    '#embed "{path}"',
)  # fmt: skip
OF_THE_HOST = 'asm(".incbin \\"{path}\\"");'


@needs_nvcc
@pytest.mark.slow
def test_no_source_reaches_another_file(confinement: Kind, secret: Path, monkeypatch) -> None:
    """Neither its content nor whether it exists. Neither way reads the source, so that it does not
    matter how an include is spelled. In a root of its own, some ways to open a file are enough; the
    host's assembler runs only there."""
    monkeypatch.setattr(compiling, "_MOST_RETRIES", 0)
    reads = READS if confinement == "library" else (READS[0], READS[7], OF_THE_HOST)
    values = {"path": secret, "folder": secret.parent}
    sources = [{"/opt/src/k.cu": f"{text.format(**values)}\n{KERNEL}"} for text in reads]
    there = [compile_source(source, "/opt/src/k.cu", SM_90) for source in sources]
    shutil.rmtree(secret.parent)
    for text, source, result in zip(reads, sources, there):
        assert compile_source(source, "/opt/src/k.cu", SM_90) == result, text
        assert SECRET not in repr(result)


def test_nothing_is_compiled_where_a_compiler_cannot_be_confined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording
) -> None:
    """Nor by the library, if no program that reads sources has loaded it."""
    stand_in(tmp_path, "exit 0", monkeypatch)
    assert not confining._works("library", str(tmp_path / "toolkit" / "bin" / "nvcc"))
    monkeypatch.setattr(compiling, "kind_of_confinement", lambda nvcc: None)
    result = compile_source({"k.cu": KERNEL}, "k.cu", SM_90)
    assert isinstance(result, CompileProblem)
    wording(result.message)


def test_headers_are_seen_one_by_one(tmp_path: Path) -> None:
    """Those in the user's folder, and those of the project of a source which is on this machine with
    the same text: a report can name any file."""
    project, named, other = (tmp_path / name for name in ("project", "named", "other"))
    for path in ("project/src", "project/common", "project/.git", "named/.hidden", "other"):
        (tmp_path / path).mkdir(parents=True)
    source = project / "src" / "k.cu"
    source.write_text(KERNEL)
    for path in (
        *("project/common/check.h", "project/src/keys", "project/.git/in_git.h", "named/a.cuh"),
        *("named/.env", "named/token.txt", "named/.hidden/b.h", "named/`id`.txt", "other/o.h"),
    ):
        (tmp_path / path).write_text(KERNEL)
    (named / "loop.h").symlink_to("loop.h")
    (named / "out.h").symlink_to(other / "o.h")
    (named / "env.h").symlink_to(".env")
    (named / "same.h").symlink_to("a.cuh")
    (named / "keys.h").symlink_to(".hidden/b.h")
    (named / "folder").symlink_to(other)

    def seen(files: dict[str, str]) -> tuple[set[str], set[str]]:
        found = compiling.headers_for(files, str(source), [str(named)])
        return {Path(p).name for p in found.folders}, {Path(p).name for p in found.files}

    of_user = {"a.cuh"}
    files = {str(source): KERNEL.replace("\n", "\r\n"), str(other / "o.h"): KERNEL}
    assert seen(files) == ({"named", "src"}, {*of_user, "check.h", "k.cu"})
    assert seen({str(source): KERNEL + " "}) == ({"named"}, of_user)
    around = f"{project}/../project/src/k.cu"
    assert compiling.headers_for({around: KERNEL}, around, []) == Headers()
    assert seen({str(source): "nul\0"}) == ({"named"}, of_user)


def test_a_home_or_a_top_folder_is_not_a_project(tmp_path: Path, monkeypatch) -> None:
    home = tmp_path / "homes" / "users" / "me"
    (home / ".git").mkdir(parents=True)
    (home / "link").symlink_to(home)
    monkeypatch.setenv("HOME", str(home / "link"))
    for path in ("k.cu", "sub/k.cu", "../k.cu"):  # the second: the repository of a home
        assert project_of((home / path).resolve()) is None
    (home / "project" / ".git").mkdir(parents=True)
    assert project_of(home / "project" / "a" / "b" / "k.cu") == home / "project"
    monkeypatch.delenv("HOME")
    assert {project_of(Path(path)) for path in ("/k.cu", "/srv/k.cu")} == {None}
    deep = {project_of(Path(f"/srv/me/project/{path}")) for path in ("k.cu", "src/k.cu")}
    assert deep == {Path("/srv/me/project")}


def test_names_that_a_shell_would_interpret_are_not_compiled(tmp_path: Path, monkeypatch) -> None:
    stand_in(tmp_path, "exit 0", monkeypatch)
    monkeypatch.setattr(compiling, "kind_of_confinement", lambda nvcc: "namespaces")
    monkeypatch.setattr(compiling, "headers_below", lambda folders: [])
    for name in ("/r/a`id`b.cu", '/r/a";id;".cu', "/r/$(id).cu", "/r/a\nb.cu"):
        for files, main in (({name: KERNEL}, name), ({"/r/k.cu": KERNEL, name: ""}, "/r/k.cu")):
            result = compile_source(files, main, SM_90)
            assert isinstance(result, CompileProblem)
            assert "a shell would" in result.message
    (tmp_path / "a`id`b").mkdir()
    folders = [str(tmp_path / "a`id`b"), "/"]
    assert compiling.headers_for({"k.cu": KERNEL}, "k.cu", folders).folders == ()


def test_nvcc_is_found_in_the_folder_of_the_toolkit_and_the_toolkit_behind_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, "exit 0", monkeypatch)
    (tmp_path / "link").symlink_to("toolkit")
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "link"))
    path = find_nvcc()
    assert path == str(tmp_path / "link" / "bin" / "nvcc")
    found = confining.toolkit(path)
    assert found.nvcc == str(tmp_path / "toolkit" / "bin" / "nvcc")
    assert str(tmp_path / "toolkit" / "bin") in found.visible


def test_sources_in_a_folder_called_cuda_are_the_programs_own() -> None:
    own = (
        *("/home/me/cuda/k.cu", "/home/me/cuda-12.4/own.h", "/srv/nvidia/k.cu"),
        *("/usr/local/cuda-12.4/samples/k.cu", "/home/me/cuda/include/own.h"),
    )
    of_toolkits = (
        *("/usr/include/math.h", "/usr/local/cuda/include/cuda_fp16.h"),
        *("/opt/x/targets/x86_64-linux/include/mma.h", "/env/include/crt/mma.hpp"),
    )
    assert tuple(compiling.own_files(dict.fromkeys((*own, *of_toolkits), KERNEL))) == own
    for path in (path for path in own if path.endswith(".cu")):
        found = kernel_files(launch_of({path: KERNEL}, "scale"))
        assert found == ([path] if "/usr" not in path else [])


def test_unsupported_architectures_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_architectures", lambda path: (75, 80, 86, 90, 100, 120))
    wanted = ("9.0", "7.0", "8.9", "12.1", "13.0", None, "9.0; rm -rf")
    known = ["sm_90", "sm_75", "sm_86", "sm_120", "sm_120", "sm_120", "sm_120"]
    assert [compiling.architecture("nvcc", capability) for capability in wanted] == known
    monkeypatch.setattr(compiling, "_architectures", lambda path: ())
    assert compiling.architecture("nvcc", "9.0") is None


def test_without_nvcc_nothing_is_checked(monkeypatch: pytest.MonkeyPatch, wording) -> None:
    monkeypatch.setattr(compiling, "find_nvcc", lambda: None)
    files = {"k.cu": KERNEL}
    result = compile_edit(files, patched(files, replaced("y[i] *= a", "y[i] = a")), NAME, SM_90)
    assert result.outcome == "not checked"
    wording(result.message)


def test_python_kernels_are_parsed_only(wording) -> None:
    files = {"k.py": "def f(x):\n    y = x + 1\n    return y\n"}
    texts = ("y = x + 2", "y = (x + 2", "y = " + "(" * 500 + "1" + ")" * 500)
    changes = (LineReplacement("k.py", "    y = x + 1", f"    {new}") for new in texts)
    good, bad, deep = (compile_edit(files, patched(files, change), F) for change in changes)
    assert [each.outcome for each in (good, bad, deep)] == ["not checked", "fails", "fails"]
    wording(good.message)
    assert bad.errors[0].line == 2


@pytest.mark.slow
def test_a_hanging_compiler_is_killed_with_its_children(
    confinement: Kind, tmp_path: Path, monkeypatch, wording
) -> None:
    program = f"sleep 86{os.getpid()}"  # a number that no other test waits for
    stand_in(tmp_path, f"{program} &\nwait", monkeypatch)

    class Started(subprocess.Popen):  # type: ignore[type-arg]
        """Its time begins when it has started the other program, however late that is."""

        def wait(self, timeout: float | None = None) -> int:
            while timeout == 0.2 and not _runs(program):
                time.sleep(0.02)
            return super().wait(timeout)

    monkeypatch.setattr(confining.subprocess, "Popen", Started)
    result = compile_source({"k.cu": KERNEL}, "k.cu", SM_90._replace(timeout=0.2))
    assert isinstance(result, CompileProblem)
    wording(result.message)
    while _runs(program):  # `sleep` would go on for a day
        time.sleep(0.05)


@pytest.mark.slow
def test_a_compiler_ends_with_keet(confinement: Kind, tmp_path: Path, monkeypatch) -> None:
    program = f"sleep 87{os.getpid()}"
    stand_in(tmp_path, f"{program} &\nwait", monkeypatch)
    code = f"""
from keet.agent.edits import compiling
compiling.find_nvcc = lambda: {compiling.find_nvcc()!r}
compiling.kind_of_confinement = lambda nvcc: {confinement!r}
compiling._architectures = lambda path: (90,)
compiling.compile_source({{"k.cu": ""}}, "k.cu", compiling.BuildOptions())
"""
    with subprocess.Popen([sys.executable, "-c", code]) as keet:
        while not _runs(program):
            assert keet.poll() is None
            time.sleep(0.02)
        keet.kill()
    while _runs(program):  # for a day, if it goes on
        time.sleep(0.05)


def _runs(program: str) -> bool:
    wanted = program.replace(" ", "\0").encode() + b"\0"
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if path.read_bytes() == wanted:
                return True
    return False


@needs_nvcc
@pytest.mark.slow
def test_an_edit_is_compiled_beside_the_original(wording) -> None:
    files = {"/not/here/k.cu": KERNEL}
    builds: compiling.Builds = {}
    new = "    __shared__ float all[1024];\n    all[threadIdx.x] = y[i];\n    __syncthreads();\n    if (i < n) y[i] = a * all[1023 - threadIdx.x];"
    patch = patched(files, LineReplacement("k.cu", WRITES, new))
    result = compile_edit(files, patch, NAME, SM_90, builds)
    assert (result.outcome, len(builds)) == ("compiles", 2)
    wording(result.message)
    failed = compile_edit(files, patched(files, replaced("*= a", "*= b")), NAME, SM_90, builds)
    assert (failed.outcome, len(builds)) == ("fails", 3)  # the original was not compiled again
    assert [str(error) for error in failed.errors] == ['k.cu:3: identifier "b" is undefined']
    wording(failed.message)


SPILLS = "#pragma unroll\n    float v[60];\n    for (int k = 0; k < 60; ++k) v[k] = y[i + k * n];\n    for (int k = 0; k < 60; ++k) y[i + k] = v[59 - k] * v[(k * 7) % 60];"
NOT_AT_HAND = '#include "not_at_hand.h"\n' + KERNEL


@needs_nvcc
@pytest.mark.slow
@each_row(
    ("name", "text", "old", "new", "outcome"),
    [
        ("a warning of its own", KERNEL.replace("const", "int old;\n    const", 1), WRITES, f"    int unused;\n{WRITES}", "compiles"),
        ("spills", KERNEL.replace(WRITES, SPILLS), HEAD, HEAD.replace("scale", "__launch_bounds__(1024, 2) scale"), "compiles"),
        ("the original does not compile", NOT_AT_HAND, WRITES, WRITES.replace("a;", "nonsense;"), "not checked"),
    ],
)  # fmt: skip
def test_what_is_told_of_an_edit(
    name: str, text: str, old: str, new: str, outcome: str, wording
) -> None:
    files = {"k.cu": text}
    result = compile_edit(files, patched(files, LineReplacement("k.cu", old, new)), NAME, SM_90)
    assert (result.outcome, result.errors) == (outcome, ())
    wording(result.warnings, result.message, case=name)


@needs_nvcc
def test_headers_come_from_the_edited_sources_then_from_the_users_folder(tmp_path: Path) -> None:
    (tmp_path / "on_disk.h").write_text("#pragma once\nconstexpr int kDisk = 1;\n")
    main, own = tmp_path / "k.cu", "constexpr int kOwn = 2;"
    includes = '#include "own.h"\n#include "on_disk.h"\n'
    text = includes + KERNEL.replace("*= a", "*= a * kOwn * kDisk")
    main.write_text(text)
    files = {str(main): text, str(tmp_path / "own.h"): f"{own}\n"}
    before = sorted(path.name for path in tmp_path.iterdir())

    def compiled(new: str) -> compiling.BuildComparison:
        return compile_edit(files, patched(files, LineReplacement("own.h", own, new)), NAME, SM_90)

    assert compiled("constexpr int kOwn = 3;").outcome == "compiles"
    failed = compiled("constexpr int kOther = 3;")
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
    assert isinstance(result, compiling.Compiled), result
    assert set(result.settings.flags) == {"--expt-relaxed-constexpr", "-rdc=true", "-std=c++20"}
    assert result.settings.arch == "sm_90a"


HOSTILE = (
    f"template <int N> struct Deep {{ Deep<N + 1> next; }};\nDeep<0> all;\n{KERNEL}",
    f'#include "k.cu"\n{KERNEL}',
    "x" * 100_000,
    "\0\x01\xff",
    "#error " + "y" * 50_000,
    "constexpr int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\nstatic_assert(f(60) > 0);\n",
)


@needs_nvcc
@pytest.mark.slow
def test_hostile_sources_end_in_a_short_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one does not end by itself."""
    monkeypatch.setattr(compiling, "_MOST_RETRIES", 0)
    for text in HOSTILE:
        limit = 1 if text == HOSTILE[-1] else 30
        result = compile_source({"k.cu": text}, "k.cu", SM_90._replace(timeout=limit))
        assert isinstance(result, CompileProblem)
        assert len(result.message) < 400
        assert len(repr(result.errors)) < 3000


@needs_nvcc
@pytest.mark.slow
def test_a_sample_compiles_with_the_registers_of_its_report() -> None:
    path = SAMPLES / "score_tiles" / "slow.cu"
    launch = read_profile(report_of("score_tiles")).launches[0]
    options = BuildOptions(launch.device.compute_capability)
    result = compile_source({str(path): path.read_text(encoding="utf-8")}, str(path), options)
    assert isinstance(result, compiling.Compiled), result
    kernel = kernel_named(result.kernels, launch.name)
    assert kernel.registers == LaunchView(launch).value("registers_per_thread")
    assert kernel.shared == LaunchView(launch).value("shared_memory_static")
