"""How a kernel was compiled: only what its report proves."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keet.agent.source.build_facts import build_facts
from keet.agent.source.build_facts import module_facts as told
from keet.ingest.code_object import CodeObject
from keet.ingest.cubin import BuildInfo, build_info
from keet.profile import Profile


def test_facts_of_an_optimised_build(profile_of: Callable[[str], Profile]) -> None:
    assert build_facts(profile_of("tour_full.ncu-rep").launches[0]) == [
        "compiled for sm_90 by ptxas 13.0",
        "with line information",
        "not built with -use_fast_math: FP32 arithmetic keeps denormals",
    ]


def test_without_lines_the_arithmetic_is_not_known(profile_of: Callable[[str], Profile]) -> None:
    facts = build_facts(profile_of("tour_nolines.ncu-repz").launches[0])
    assert facts == ["compiled for sm_90 by ptxas 13.0"]


def test_triton_has_no_options_of_nvcc(profile_of: Callable[[str], Profile]) -> None:
    facts = build_facts(profile_of("triton.ncu-repz").launches[0])
    assert facts[0].startswith("compiled for sm_90")
    assert not any("fast_math" in fact for fact in facts)


def test_an_export_has_no_build_facts(profile_of: Callable[[str], Profile]) -> None:
    assert build_facts(profile_of("tour_lines.csv").launches[0]) == []


# --- cubins made for the purpose


def cubin(**sections: bytes) -> bytes:
    """An ELF file for sm_90 with these sections; `_` in a name stands for a dot at its start."""
    named = {"": b"", ".shstrtab": b""} | {f".{k.lstrip('_')}": v for k, v in sections.items()}
    named[".shstrtab"] = b"".join(name.encode() + b"\0" for name in named)
    body, rows, name_at = b"", b"", 0
    for name, data in named.items():
        rows += struct.pack("<IIQQQQIIQQ", name_at, 1, 0, 0, 64 + len(body), len(data), 0, 0, 1, 0)
        body += data
        name_at += len(name) + 1
    identity = b"\x7fELF\x02\x01\x01A\x08".ljust(16, b"\0")
    table = 64 + len(body)
    header = (identity, 2, 190, 1, 0, 0, table, 90 << 8, 64, 0, 0, 64, len(named), 1)
    return struct.pack("<16sHHIQQQIHHHHHH", *header) + body + rows


def note(tool: str, options: str) -> bytes:
    texts = ["", tool, "Cuda compilation tools, release 12.4, V12.4.99", "Build", options]
    starts = [sum(len(text) + 1 for text in texts[:at]) for at in range(len(texts))]
    body = struct.pack("<6I", 2, *starts) + b"".join(text.encode() + b"\0" for text in texts)
    body += b"\0" * (-len(body) % 4)
    return struct.pack("<III", 12, len(body), 2000) + b"NVIDIA Corp\0" + body


def info_of(ptx: bytes = b"", notes: bytes = b"") -> BuildInfo:
    info = build_info(cubin(_nv_debug_ptx_txt=ptx, **{"_note.nv.tkinfo": notes}))
    assert info is not None
    return info


@pytest.mark.parametrize(
    ("ptx", "flushes"),
    [
        (b"mul.ftz.f32 a, b;\0fma.rn.ftz.f32 a, b;", True),
        (b"mul.f32 a, b;\0fma.rn.f32 a, b;\0ex2.approx.ftz.f32 a, b;", False),
        (b"mul.f32 a, b;\0add.ftz.f32 a, b;", None),
        (b"add.s32 a, b;", None),
    ],
)
def test_arithmetic_that_flushes_denormals(ptx: bytes, flushes: bool | None) -> None:
    assert info_of(ptx).flushes is flushes


def test_a_debug_build_and_its_architecture() -> None:
    info = info_of(b".version 8.4\0.target sm_61, debug\0")
    assert info.debug
    assert info.architecture == 90
    assert not info_of(b".target sm_61\0").debug


@pytest.mark.parametrize(
    ("sections", "debugging"),
    [
        ((), False),
        (("_debug_line", "_nv_debug_line_sass", "_debug_frame"), False),
        (("_debug_info", "_debug_abbrev", "_debug_line"), False),
        (("_debug_info", "_nv_debug_info_reg_sass"), True),
    ],
)
def test_tables_for_a_debugger(sections: tuple[str, ...], debugging: bool) -> None:
    """`-lineinfo` has lines only; `.debug_info` alone may be from the compiler before ptxas."""
    code = CodeObject()
    code.cubin = cubin(**dict.fromkeys(sections, b"1"))
    assert code.is_for_debugging is debugging
    damaged = CodeObject()
    damaged.cubin = code.cubin[:70]
    assert not damaged.is_for_debugging


def test_options_of_ptxas_among_the_notes_of_other_tools() -> None:
    info = info_of(notes=note("nvJIT API", "x") + note("ptxas", "-arch sm_90 -O1 -maxrregcount 32"))
    assert (info.tool_version, info.options) == ("12.4", "-arch sm_90 -O1 -maxrregcount 32")


def test_options_reported_elsewhere_are_not_repeated() -> None:
    info = info_of(notes=note("ptxas", "-arch sm_90 -O1 -maxrregcount 32 \x1b[2J `rm`"))
    assert list(told(info))[-1] == "ptxas options: -O1 -maxrregcount 32"


@given(st.binary(max_size=200), st.integers(0, 400))
def test_damaged_machine_code_does_not_raise(damage: bytes, at: int) -> None:
    whole = cubin(_nv_debug_ptx_txt=b"mul.f32", **{"_note.nv.tkinfo": note("ptxas", "-O1")})
    build_info(whole[:at] + damage + whole[at + len(damage) :])
    build_info(damage)
