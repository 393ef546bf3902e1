#include "problem.h"

constexpr int kWarp = 32;

// A lane's word of a page: lane 0 reads the link, the others one entry each.
__device__ int page_word(const Page* pages, int page, int lane) {
    return reinterpret_cast<const int*>(pages + page)[lane];
}

__device__ float warp_sum(float value) {
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(~0u, value, offset);
    }
    return value;
}

__global__ void sum_lists(const int* heads, const Page* pages, float* sums) {
    const int list = blockIdx.x;
    const int lane = threadIdx.x;
    float sum = 0;
    for (int page = heads[list]; page >= 0;) {
        const int word = page_word(pages, page, lane);
        if (lane > 0) sum += __int_as_float(word);
        page = __shfl_sync(~0u, word, 0);
    }
    sum = warp_sum(sum);
    if (lane == 0) sums[list] = sum;
}

void launch(const Problem& problem) {
    sum_lists<<<problem.lists, kWarp>>>(problem.heads, problem.pages, problem.sums);
}
