import torch
import triton
import triton.language as tl
from problem import main
from triton.tools.tensor_descriptor import TensorDescriptor

TILE_M, TILE_N, TILE_K = 128, 256, 64
GROUP = 16


@triton.jit
def mix(tokens, weights, out, width: tl.constexpr, group: tl.constexpr):
    tile_m: tl.constexpr = out.block_shape[0]
    tile_n: tl.constexpr = out.block_shape[1]
    tile_k: tl.constexpr = tokens.block_shape[1]
    tiles_m = tl.cdiv(out.shape[0], tile_m)
    tiles_n = tl.cdiv(out.shape[1], tile_n)

    # Programs go through the tiles of the result in bands of `group` rows of tiles.
    program = tl.program_id(0)
    first = program // (group * tiles_n) * group
    band = min(group, tiles_m - first)
    inside = program % (group * tiles_n)
    row = (first + inside % band) * tile_m
    column = inside // band * tile_n

    total = tl.zeros((tile_m, tile_n), dtype=tl.float32)
    for k in range(0, width, tile_k):
        a = tokens.load([row, k])
        b = weights.load([column, k])
        total = tl.dot(a, b.T, total)
    out.store([row, column], total.to(tl.bfloat16))


def launch(tokens: torch.Tensor, weights: torch.Tensor, out: torch.Tensor) -> None:
    programs = triton.cdiv(out.shape[0], TILE_M) * triton.cdiv(out.shape[1], TILE_N)
    mix[(programs,)](
        TensorDescriptor.from_tensor(tokens, [TILE_M, TILE_K]),
        TensorDescriptor.from_tensor(weights, [TILE_N, TILE_K]),
        TensorDescriptor.from_tensor(out, [TILE_M, TILE_N]),
        width=tokens.shape[1],
        group=GROUP,
        num_warps=8,
        num_stages=4,
    )


if __name__ == "__main__":
    main(launch)
