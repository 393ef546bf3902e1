"""The code of one kernel: basic blocks, loops with trip counts, values in SSA form."""
