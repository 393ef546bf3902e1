// Replays every kernel and prints one line of JSON for each.
#include "replay.h"

#define KERNELS(K)                                                                            \
    K(matrix_flip_slow)                                                                       \
    K(fan_update_slow)                                                                        \
    K(field_axpy_slow)                                                                        \
    K(blend_frames_slow)                                                                      \
    K(row_norms_slow)                                                                         \
    K(pair_reduce_fast)                                                                       \
    K(row_layers_slow_normalise)                                                              \
    K(scan_rows_slow)                                                                         \
    K(window_median_slow)                                                                     \
    K(lookup_records_slow)                                                                    \
    K(sparse_apply_slow)                                                                      \
    K(page_walk_slow)                                                                         \
    K(stencil_march_slow)                                                                     \
    K(stencil_march_fast)                                                                     \
    K(tap_filter_slow)                                                                        \
    K(tile_smooth_slow)                                                                       \
    K(score_tiles_slow)                                                                       \
    K(half_dense_slow)                                                                        \
    K(panel_product_slow)                                                                     \
    K(orbit_forces_slow)                                                                      \
    K(stencil2d_wrapped)                                                                      \
    K(stencil2d_star_march)                                                                   \
    K(stencil2d_tiles_24)                                                                     \
    K(gemv_rows)                                                                              \
    K(gemv_columns)                                                                           \
    K(gemm_one_buffer)                                                                        \
    K(gemm_split_k)                                                                           \
    K(gemm_nt_single)                                                                         \
    K(batched_gemm)                                                                           \
    K(transpose_tile_33)                                                                      \
    K(permute_divided)                                                                        \
    K(host_stream_rows)                                                                       \
    K(quant_dequant_flat)                                                                     \
    K(bit_unpack_each)                                                                        \
    K(layernorm_halves)                                                                       \
    K(heat_in_turn)                                                                           \
    K(nbody_untiled)                                                                          \
    K(spmv_sentinel_each)                                                                     \
    K(embedding_columns)                                                                      \
    K(gather_pixels)                                                                          \
    K(triton_softmax_short)                                                                   \
    K(triton_gather_sums)

#define DECLARE(name) void name(Kernel&);
KERNELS(DECLARE)

#define LIST(name) name,
constexpr Replay kReplays[] = {KERNELS(LIST)};

int main() {
    for (const Replay replay : kReplays) {
        Kernel kernel;
        replay(kernel);
        kernel.print();
    }
}
