"""The SASS opcodes that keet knows, Turing to Blackwell, by what they do.

The names are those of NVIDIA's instruction set reference (CUDA Binary Utilities, chapter 4) and of
the code in reports. An opcode that is not listed has the role `Role.UNKNOWN`.
"""

from __future__ import annotations

from enum import Enum


def words(text: str) -> frozenset[str]:
    """The set of words in a text."""
    return frozenset(text.split())


class Role(Enum):
    """What an opcode does, for the dataflow analysis."""

    FLOAT = "floating-point arithmetic"
    TENSOR = "tensor-core arithmetic"
    INTEGER = "integer arithmetic or logic"
    PREDICATE = "comparison or logic on predicates"
    CONVERSION = "conversion between number formats"
    MOVE = "move or selection"
    SHUFFLE = "exchange between lanes"
    SPECIAL = "read of a special register"
    CONSTANT = "load from a constant bank"
    LOAD = "load"
    STORE = "store"
    ATOMIC = "atomic or reduction in memory"
    COPY = "asynchronous copy between memories"
    BRANCH = "branch, call or end"
    CONVERGENCE = "convergence of a warp"
    SYNC = "barrier, fence or wait"
    NOTHING = "no operation"
    UNKNOWN = "unknown"


_BY_ROLE = {
    Role.FLOAT: """
        FADD FADD2 FADD32I FFMA FFMA2 FFMA32I FMNMX FMNMX3 FMUL FMUL2 FMUL32I FSEL FSET FSWZ
        FSWZADD MUFU HADD2 HADD2_32I HFMA2 HFMA2_32I HMNMX2 HMUL2 HMUL2_32I HSET2 VHMNMX
        DADD DFMA DMUL IPA UFADD UFFMA UFMUL UFMNMX UFSEL UFSET FHADD FHFMA
    """,
    Role.TENSOR: """
        HMMA IMMA BMMA DMMA QMMA OMMA HGMMA IGMMA BGMMA QGMMA UTCHMMA UTCIMMA UTCQMMA UTCOMMA
        UTCMXQMMA
    """,
    Role.INTEGER: """
        BMSK BREV FLO IABS IADD IADD2 IADD3 IADD32I IDP IDP4A IMAD IMAD32I IMNMX IMUL IMUL32I
        ISCADD ISCADD32I LEA LOP LOP3 LOP32I POPC SHF SHL SHR SGXT VABSDIFF VABSDIFF4 VIADD
        VIADDMNMX VIMNMX VIMNMX3 XMAD PRMT ISET SEL USEL
        UBMSK UBREV UFLO UIABS UIADD3 UIADD UIMAD UIMNMX ULEA ULOP ULOP3 ULOP32I UPOPC USHF USHL
        USHR USGXT UPRMT UVIADD UVIMNMX UVIADDMNMX UIADD2 REDUX CREDUX MATCH
        LEPC
    """,
    Role.PREDICATE: """
        ISETP FSETP DSETP HSETP2 PSETP PLOP3 FCHK VOTE VOTEU UISETP UFSETP UPLOP3 UPSETP R2P UR2UP
        CSMTEST QSPC
    """,
    Role.CONVERSION: """
        F2F F2FP F2I F2IP FRND I2F I2FP I2I I2IP UF2F UF2FP UF2I UI2F UI2FP UFRND UF2IP UI2I
        UI2IP
    """,
    Role.MOVE: """
        MOV MOV32I MOVM UMOV P2R UP2UR R2UR CS2UR USETMAXREG
        GETLMEMBASE SETLMEMBASE B2R R2B BMOV PCNT
    """,
    Role.SHUFFLE: "SHFL",
    Role.SPECIAL: "S2R S2UR CS2R",
    Role.CONSTANT: "LDC LDCU ULDC",
    Role.LOAD: """
        LD LDG LDL LDS LDSM LDT LDTM LDTRAM TEX TLD TLD4 TMML TXD TXQ SULD SUQ TTULD
    """,
    Role.STORE: "ST STG STL STS STSM STT STTM STTRAM SUST STAS TTUST",
    Role.ATOMIC: """
        ATOM ATOMG ATOMS RED REDG SUATOM SURED REDAS UREDGR
    """,
    Role.COPY: """
        LDGSTS UTMALDG UTMASTG UTMAREDG UTMAPF UBLKCP UBLKPF UBLKRED LDGMC UTCCP UTMALST
        UTCATOMSWS UTCSHIFT UTCBAR
    """,
    Role.BRANCH: """
        BRA BRX BRXU BPT CALL EXIT JMP JMX JMXU KILL RET RTT UCALL UBRA
    """,
    Role.CONVERGENCE: "BSSY BSYNC BREAK ENDCOLLECTIVE YIELD RPCMOV",
    Role.SYNC: """
        BAR B2UR DEPBAR WARPSYNC ERRBAR FENCE LDGDEPBAR MEMBAR NANOSLEEP SYNCS UCGABAR_ARV
        UCGABAR_WAIT WARPGROUP WARPGROUPSET CCTL CCTLL CCTLT UTMACCTL UTMACMDFLUSH ELECT
        ARRIVES ACQBULK
        CGAERRBAR UCGABAR PREEXIT ACQSHMINIT MEMSET USTGR UCCTL
    """,
    Role.NOTHING: "NOP PMTRIG SETCTAID AL2P",
}

ROLES: dict[str, Role] = {name: role for role, names in _BY_ROLE.items() for name in names.split()}

NO_DESTINATION = frozenset(
    name
    for name, role in ROLES.items()
    if role in (Role.STORE, Role.COPY, Role.BRANCH, Role.CONVERGENCE, Role.NOTHING)
) | words(
    """RED REDG SURED REDAS BAR WARPSYNC DEPBAR ERRBAR FENCE LDGDEPBAR MEMBAR NANOSLEEP
    WARPGROUP CCTL CCTLL CCTLT UTMACCTL UTMACMDFLUSH CGAERRBAR PREEXIT UCGABAR_ARV
    UCGABAR_WAIT USETMAXREG WARPGROUPSET ACQBULK R2B"""
)
"""Opcodes whose operands are all read."""

WARP = 32
"""Threads."""
STACK = "R1"
"""The register with the address of a thread's local memory."""

# --- memory

GLOBAL_LOADS = words("LD LDG")
"""Into registers. LD, ST and ATOM have generic addresses, which mostly are global."""
GLOBAL_STORES = words("ST STG")
RETURNING_ATOMICS = words("ATOM ATOMG")
GLOBAL_ATOMICS = RETURNING_ATOMICS | words("RED REDG")
GLOBAL = GLOBAL_LOADS | GLOBAL_STORES | GLOBAL_ATOMICS | {"LDGSTS"}
"""Opcodes whose threads address global memory."""
SHARED_LOADS = words("LDS LDSM")
SHARED_STORES = words("STS STSM")
SHARED = SHARED_LOADS | SHARED_STORES | {"ATOMS"}
LOCAL = words("LDL STL")
GENERIC = words("LD ST ATOM")

COPIES = words("LDGSTS UTMALDG UBLKCP")
"""Asynchronous copies from global to shared memory. UBLKCP also copies the other way."""
TMA = words("UTMALDG UTMASTG UTMAREDG UBLKCP UBLKRED")
"""Bulk copies and reductions between global and shared memory."""
GLOBAL_READS = GLOBAL_LOADS | COPIES
SURFACES = words("SULD SUST SUATOM SURED")
STORES_APART = SURFACES - {"SULD"} | words("UTMASTG UTMAREDG UBLKRED")
"""Bulk stores and stores to surfaces: the addresses of threads do not show where."""
ATOMICS = words(_BY_ROLE[Role.ATOMIC]) | words("UTMAREDG UBLKRED")
TEXTURES = words("TEX TLD TLD4 TMML TXD TXQ")
"""Opcodes that fetch from a texture: two destinations, then coordinates in registers."""
MEMORY = frozenset(
    name for name, role in ROLES.items() if role in (Role.LOAD, Role.STORE, Role.ATOMIC, Role.COPY)
) - words("LDT LDTM LDTRAM STT STTM STTRAM UTCCP UTCATOMSWS UTCSHIFT UTCBAR")
"""All accesses, except those to the memory of the tensor cores."""

# --- arithmetic

TENSOR = words(_BY_ROLE[Role.TENSOR])
TENSOR_OF_WARP = words("HMMA IMMA BMMA DMMA QMMA OMMA")
"""Of one warp, from registers. The others (of four warps, of a block) read shared memory."""
FLOAT_PRODUCTS = words(
    """FMUL FFMA FMUL2 FFMA2 FMUL32I FFMA32I FHFMA HMUL2 HFMA2 HMUL2_32I HFMA2_32I DMUL DFMA"""
)
FLOAT_ARITHMETIC = FLOAT_PRODUCTS | words("FADD FADD2 FADD32I FHADD HADD2 HADD2_32I DADD")
"""Additions and multiplications of threads. The uniform ones (UFFMA) are one per warp."""
SINGLE, HALF, DOUBLE = (
    frozenset(name for name in FLOAT_ARITHMETIC if name[0] == letter) for letter in "FHD"
)

# --- pipes

BY_PIPE = {
    "ADU": words("BAR LDC LDCU ULDC"),
    "FMA": SINGLE | words("IMAD IMAD32I IMUL IMUL32I XMAD VIADD"),
    "ALU": words(
        """IADD IADD2 IADD3 IADD32I IABS LOP LOP3 LOP32I SHF SHL SHR SGXT PRMT LEA SEL IMNMX VIMNMX
        VIMNMX3 VIADDMNMX ISETP FSETP FSEL FMNMX FMNMX3 PLOP3 VOTE F2FP I2FP"""
    ),
    "FP64": DOUBLE | {"DSETP"},
    "tensor": TENSOR,
    "FP16": HALF | words("HMNMX2 HSET2 HSETP2"),
    "XU": words("MUFU F2F F2I I2F I2I FRND POPC FLO BREV"),
    "LSU": GLOBAL | SHARED | LOCAL,
}
"""By the pipe that executes them, each in one: from Nsight Compute's description of pipes. Where
it does not say, from their counters on an H200 (`python -m evals.sass.pipes`): VIADD is FMA, F2FP
and I2FP are ALU, POPC is XU. I2I was not among those; its latency varies, as on the XU. The table
is not complete: by the counters, FCHK is XU, HADD2 and IDP are FMA. SHFL and S2R, which are on the
LSU pipe, access no memory and are left out."""

LONG_SCOREBOARD = words(
    """LD LDG LDL ATOM ATOMG TEX TLD TLD4 TXD TXQ TMML SULD SUATOM LDGSTS ST STG STL
    RED REDG UTMALDG UBLKCP LDT LDTM"""
)
"""Opcodes whose completion a `long scoreboard` stall waits for: those that go through L1TEX."""
SHORT_SCOREBOARD = words(
    """LDS LDSM STS STSM ATOMS SHFL MUFU F2F F2I I2F FRND I2I S2R S2UR FLO POPC BREV
    FCHK MATCH REDUX R2UR VOTEU DADD DMUL DFMA DSETP DMMA LDC MOVM SYNCS UFLO UPOPC
    BMSK CS2R IPA HMMA IMMA F2FP VOTE"""
)
"""Opcodes of variable latency that go through the MIO queue or a pipe shared by an SM."""


IMPURE = words(
    """VOTE VOTEU ELECT B2R B2UR CS2UR BMOV PCNT LEPC GETLMEMBASE MATCH REDUX CREDUX S2R S2UR CS2R
    CSMTEST QSPC P2R UP2UR R2B SHFL"""
)
"""Opcodes whose results depend on more than their operands: on lanes, barriers, clocks."""


def role_of(opcode: str) -> Role:
    return ROLES.get(opcode, Role.UNKNOWN)
