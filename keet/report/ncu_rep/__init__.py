"""keet's own reader of `.ncu-rep`: one module per part of the file. Never runs NVIDIA's code."""
