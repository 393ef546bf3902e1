"""How a kernel was compiled, as far as its report proves."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keet.ingest.cubin import BuildInfo, HasCubins, build_info
from keet.profile import Launch

_OPTION = re.compile(r"-{1,2}[A-Za-z][\w-]{0,30}(?:[= ]\w[\w.,=-]{0,30})?")
_REPORTED_SEPARATELY = re.compile(r"-{1,2}(?:arch|m|lineinfo|gpu-name|machine)\b.*")


def build_facts(launch: Launch) -> list[str]:
    """Phrases such as "compiled for sm_90 by ptxas 13.0" and "with line information"; empty if the
    report contains no machine code."""
    if not isinstance(launch.data, HasCubins):
        return []
    infos = [build_info(cubin) for cubin in launch.data.cubins()]
    if len(infos) != 1 or infos[0] is None:
        return []  # several modules in a range or graph may be built differently
    by_nvcc = any(file.endswith((".cu", ".cuh")) for file in launch.source_files)
    return [*module_facts(infos[0]), *(_arithmetic(infos[0]) if by_nvcc else ())]


def module_facts(info: BuildInfo) -> Iterator[str]:
    tool = f" by ptxas {info.tool_version}" if info.tool_version else ""
    yield f"compiled for sm_{info.architecture}{tool}"
    if info.debug:
        yield "device debug build (-G): the compiler does not optimise it"
    elif info.line_information:
        yield "with line information"
    options = [match[0].strip() for match in _OPTION.finditer(info.options or "")]
    options = [option for option in options if not _REPORTED_SEPARATELY.fullmatch(option)]
    if options:
        yield f"ptxas options: {' '.join(options)[:120]}"


def _arithmetic(info: BuildInfo) -> Iterator[str]:
    """PTX says it of the whole module, which is compiled with one set of options."""
    if info.flushes:
        yield "all FP32 arithmetic flushes denormals (-ftz=true, part of -use_fast_math)"
    elif info.flushes is False:
        yield "not built with -use_fast_math: FP32 arithmetic keeps denormals"
    if info.divisions == {"full"}:
        yield "approximate FP32 division (-prec-div=false, part of -use_fast_math)"
