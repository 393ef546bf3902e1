"""Analysis of a kernel's machine code (SASS): what waits for what, what instructions are for, how
often each byte is read.

    instructions/   one instruction: what it reads, writes and does
    flow/           control flow with trip counts, and values in SSA form: `SassProgram`
    polynomials/    integer values as polynomials of thread, block and loop indices: `Evaluation`
    analyses/       one module per question about the code
    launch_code     all results for one launch, computed on first use: `MachineCode`; by source
                    line and calling line; names of pointer arguments and of members of structs
    streaming       whether the launch reads its data once

The folders import only those above them. Only the modules next to the folders know a `Launch`;
everything else is pure functions over instruction text and counts. `instructions/opcodes.py` is
also for what counts opcodes without machine code: importing it loads no analysis.
"""
