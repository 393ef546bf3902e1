"""How much of a launch works at a time: threads of a warp, warps of an SM, blocks of the grid,
bytes on their way."""
