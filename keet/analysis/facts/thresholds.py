"""The thresholds of all facts.

All are judgements unless the comment says otherwise. They select words; no cause, rank or forecast
depends on them.
"""

MOST = 0.5
"""Share from which a fact says `most` instructions, sectors or bytes."""
SOME = 0.1
"""Share from which a fact says `a notable part`."""
NEXT_TO_NOTHING = 0.01
"""Share up to which a fact says `next to nothing`."""

WARP = 32
"""Threads."""
LARGE_BLOCK, SMALL_BLOCK = 512, 64
"""Threads; CUDA's best practices guide recommends 128 to 256."""
FEW_OF_A_WAVE = 0.25
"""Part of a wave up to which the last one holds few blocks."""
MORE_WARPS = 1.25
"""Factor of resident warps from which another block size is worth a try."""
FEW_SMS = 0.25
"""Cycles of the average SM over those of the longest, below which few SMs do the work."""
MANY_TRIPS = 8.0
"""Iterations from which a loop can be split over more threads."""
COLD_NS = 10_000.0
"""Nanoseconds up to which empty caches are a notable part of what warps wait for."""
REGISTER_GRANULE = 256
"""Allocation unit of a warp's registers (NVIDIA's occupancy calculator)."""
MOST_REGISTERS = 255.0
"""Per thread, on every GPU since Kepler (CUDA C++ Programming Guide)."""
KEPT_BACK = 2.0
"""Registers that the compiler may leave unused at that limit."""

WIDEST, TINY = 16, 2
"""Bytes per thread: the widest access on all GPUs, and the size of a half."""
LARGEST_RECORD = 256
"""Bytes between threads up to which they access records rather than rows."""
FEW_BYTES = 256
"""Distinct bytes up to which many threads access the same few cache lines."""
REPLAYS = 5.0
"""L1's data stage over the load/store pipe, above which instructions are replayed: an access of
sixteen bytes per thread takes four wavefronts without any replay."""
READ_AGAIN = 1.5
"""Bytes read from L2 over those from DRAM, from which L2 delivers the same data again."""

PER_DIVISION = 20.0
"""Instructions that a division of 32-bit integers takes, at least."""
ABOUT_ONCE = 2.0
"""Executions of the most executed instruction over the median, up to which no loop matters."""
FULL_DOUBLE = 2.0
"""Single-precision over double-precision rate of data-centre GPUs (NVIDIA's documentation)."""
