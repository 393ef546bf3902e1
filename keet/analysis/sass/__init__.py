"""Dataflow over a kernel's machine code (SASS): what waits for what, what instructions are for, how
often each byte is read.

    opcodes, operands, effects, instruction    one instruction: what it reads, writes and does
    dominators, flow, values    control flow with trip counts; which definition a read sees
    program                 the code of one kernel with its execution counts
    purpose, blame, chains, invariant       analyses of the values
    forms, symbols, logic, context, rules, heads, trips, evaluate
                            values as polynomials of thread, block and loop indices
    counting, limits, reuse, streaming, widths, atomics     analyses of the addresses
    signature, launched     names of pointer arguments; the launch's shape
    machine_code, lines     all of it for one launch; by source line

Everything up to `machine_code` is pure functions over text and columns.
"""

from keet.analysis.sass.machine_code import MachineCode, machine_code

__all__ = ["MachineCode", "machine_code"]
