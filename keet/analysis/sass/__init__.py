"""Dataflow over a kernel's machine code (SASS): what waits for what, what instructions are for, how
often each byte is read.

    opcodes, instruction    one instruction: what it reads, writes and does
    flow, values            control flow with trip counts; which definition a read sees
    program                 the code of one kernel with its execution counts
    purpose, blame, chains, invariant       analyses of the values
    forms, logic, evaluate  values as polynomials of thread, block and loop indices
    counting, reuse, widths, atomics        analyses of the addresses
    signature               names of pointer arguments
    machine_code            all of it for one launch

Everything up to `machine_code` is pure functions over text and columns.
"""

from keet.analysis.sass.machine_code import MachineCode, machine_code

__all__ = ["MachineCode", "machine_code"]
