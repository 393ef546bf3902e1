// Permutations of the axes of 5-D tensors: out[i] = in[offset of i], row-major.
#include "../../harness/book.h"

//: shared
constexpr int kAxes = 5;

// Sizes of the axes of the result, and how far apart their neighbours are in the input.
template <class Index>
struct Shape {
    Index count;
    Index size[kAxes];
    Index stride[kAxes];
};

// n / divisor for n < 2^31, by a multiplication.
struct Divider {
    uint32_t divisor, magic, shift;
};

struct FastShape {
    uint32_t count;
    Divider size[kAxes];
    uint32_t stride[kAxes];
};

template <class Index>
__device__ Index offset_by_division(const Shape<Index>& s, Index i) {
    Index offset = 0;
#pragma unroll
    for (int axis = kAxes - 1; axis > 0; --axis) {
        const Index next = i / s.size[axis];
        offset += (i - next * s.size[axis]) * s.stride[axis];
        i = next;
    }
    return offset + i * s.stride[0];
}

__device__ inline uint32_t offset_by_reciprocal(const FastShape& s, uint32_t i) {
    uint32_t offset = 0;
#pragma unroll
    for (int axis = kAxes - 1; axis > 0; --axis) {
        const uint32_t next = (__umulhi(i, s.size[axis].magic) + i) >> s.size[axis].shift;
        offset += (i - next * s.size[axis].divisor) * s.stride[axis];
        i = next;
    }
    return offset + i * s.stride[0];
}

inline Divider divider_of(uint32_t divisor) {
    uint32_t shift = 0;
    while ((1ull << shift) < divisor) ++shift;
    const uint64_t magic = ((1ull << 32) * ((1ull << shift) - divisor)) / divisor + 1;
    return {divisor, static_cast<uint32_t>(magic), shift};
}

// Entries that an access of `pack` bytes moves count as one, along the last axis.
template <class Index, class T>
Shape<Index> shape_of(const int (&size)[kAxes], const int (&from)[kAxes], int pack) {
    const int together = pack / sizeof(T);
    size_t in_stride[kAxes];
    size_t step = 1;
    for (int axis = kAxes - 1; axis >= 0; --axis) {
        in_stride[axis] = step;
        step *= size[axis];
    }
    Shape<Index> s{};
    s.count = static_cast<Index>(step / together);
    for (int axis = 0; axis < kAxes; ++axis) {
        const bool last = axis == kAxes - 1;
        s.size[axis] = static_cast<Index>(last ? size[from[axis]] / together : size[from[axis]]);
        s.stride[axis] =
            static_cast<Index>(last ? in_stride[from[axis]] : in_stride[from[axis]] / together);
    }
    return s;
}

template <class T>
FastShape fast_shape_of(const int (&size)[kAxes], const int (&from)[kAxes], int pack) {
    const auto s = shape_of<uint32_t, T>(size, from, pack);
    FastShape fast{s.count};
    for (int axis = 0; axis < kAxes; ++axis) {
        fast.size[axis] = divider_of(s.size[axis]);
        fast.stride[axis] = s.stride[axis];
    }
    return fast;
}

template <class T>
struct Tensor {
    int size[kAxes];  // of the input
    int from[kAxes];  // axis of the input that becomes this axis of the result
    const T* in;
    T* out;
};

template <class Word, class Index>
__global__ void permute_by_division(const Word* __restrict__ in, Word* __restrict__ out, Shape<Index> s) {
    const Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < s.count) out[i] = in[offset_by_division(s, i)];
}

template <class Word>
__global__ void permute_by_reciprocal(const Word* __restrict__ in, Word* __restrict__ out, FastShape s) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < s.count) out[i] = in[offset_by_reciprocal(s, i)];
}
//: end

//: variant divided
template <class T>
void divided(const Tensor<T>& t) {
    const auto s = shape_of<uint32_t, T>(t.size, t.from, sizeof(T));
    permute_by_division<T, uint32_t><<<(s.count + 255) / 256, 256>>>(t.in, t.out, s);
}
//: end

//: variant multiplied
template <class T>
void multiplied(const Tensor<T>& t) {
    const auto s = fast_shape_of<T>(t.size, t.from, sizeof(T));
    permute_by_reciprocal<T><<<(s.count + 255) / 256, 256>>>(t.in, t.out, s);
}
//: end

//: variant divided_by_16
template <class T>
void divided_by_16(const Tensor<T>& t) {
    const auto s = shape_of<uint32_t, T>(t.size, t.from, 16);
    permute_by_division<uint4, uint32_t><<<(s.count + 255) / 256, 256>>>(
        reinterpret_cast<const uint4*>(t.in), reinterpret_cast<uint4*>(t.out), s);
}
//: end

//: variant multiplied_by_8
template <class T>
void multiplied_by_8(const Tensor<T>& t) {
    const auto s = fast_shape_of<T>(t.size, t.from, 8);
    permute_by_reciprocal<uint2><<<(s.count + 255) / 256, 256>>>(
        reinterpret_cast<const uint2*>(t.in), reinterpret_cast<uint2*>(t.out), s);
}
//: end

//: variant multiplied_by_16
template <class T>
void multiplied_by_16(const Tensor<T>& t) {
    const auto s = fast_shape_of<T>(t.size, t.from, 16);
    permute_by_reciprocal<uint4><<<(s.count + 255) / 256, 256>>>(
        reinterpret_cast<const uint4*>(t.in), reinterpret_cast<uint4*>(t.out), s);
}
//: end

// --- channels last to channels first: (n, d, h, w, c) to (n, c, d, h, w)

//: variant entries_long
template <class T>
void entries_long(const Tensor<T>& t) {
    const auto s = shape_of<size_t, T>(t.size, t.from, sizeof(T));
    permute_by_division<T, size_t><<<unsigned((s.count + 255) / 256), 256>>>(t.in, t.out, s);
}
//: end

//: variant entries
template <class T>
void entries(const Tensor<T>& t) {
    const auto s = fast_shape_of<T>(t.size, t.from, sizeof(T));
    permute_by_reciprocal<T><<<(s.count + 255) / 256, 256>>>(t.in, t.out, s);
}
//: end

//: shared
constexpr int kTile = 32;

// Blocks of 32 x 8 threads, one for 32 places of 32 channels of one n; places are d, h and w together.
inline dim3 tiles(const int (&size)[kAxes]) {
    return dim3(size[1] * size[2] * size[3] / kTile, size[4] / kTile, size[0]);
}
//: end

//: variant tiles_long
template <class T>
__global__ void permute_tiles_long(const T* __restrict__ in, T* __restrict__ out, Shape<size_t> s,
                                   int channels, int places) {
    __shared__ T tile[kTile][kTile + 1];
    const int channel = blockIdx.y * kTile, place = blockIdx.x * kTile;
    const size_t first = (size_t(blockIdx.z) * channels + channel) * places + place;
    for (int j = threadIdx.y; j < kTile; j += 8) {
        tile[j][threadIdx.x] = in[offset_by_division(s, first + size_t(threadIdx.x) * places + j)];
    }
    __syncthreads();
    for (int j = threadIdx.y; j < kTile; j += 8) {
        out[first + size_t(j) * places + threadIdx.x] = tile[threadIdx.x][j];
    }
}

template <class T>
void tiles_long(const Tensor<T>& t) {
    const auto s = shape_of<size_t, T>(t.size, t.from, sizeof(T));
    permute_tiles_long<T><<<tiles(t.size), dim3(kTile, 8)>>>(t.in, t.out, s, t.size[4],
                                                             t.size[1] * t.size[2] * t.size[3]);
}
//: end

//: variant tiles_square
template <class T>
__global__ void permute_tiles_square(const T* __restrict__ in, T* __restrict__ out, FastShape s,
                                     int channels, int places) {
    __shared__ T tile[kTile][kTile];
    const int channel = blockIdx.y * kTile, place = blockIdx.x * kTile;
    const uint32_t first = (blockIdx.z * channels + channel) * places + place;
    for (int j = threadIdx.y; j < kTile; j += 8) {
        tile[j][threadIdx.x] = in[offset_by_reciprocal(s, first + threadIdx.x * places + j)];
    }
    __syncthreads();
    for (int j = threadIdx.y; j < kTile; j += 8) {
        out[first + j * places + threadIdx.x] = tile[threadIdx.x][j];
    }
}

template <class T>
void tiles_square(const Tensor<T>& t) {
    const auto s = fast_shape_of<T>(t.size, t.from, sizeof(T));
    permute_tiles_square<T><<<tiles(t.size), dim3(kTile, 8)>>>(t.in, t.out, s, t.size[4],
                                                               t.size[1] * t.size[2] * t.size[3]);
}
//: end

//: variant tiles_of_33
template <class T>
__global__ void permute_tiles_of_33(const T* __restrict__ in, T* __restrict__ out, FastShape s,
                                    int channels, int places) {
    __shared__ T tile[kTile][kTile + 1];
    const int channel = blockIdx.y * kTile, place = blockIdx.x * kTile;
    const uint32_t first = (blockIdx.z * channels + channel) * places + place;
    for (int j = threadIdx.y; j < kTile; j += 8) {
        tile[j][threadIdx.x] = in[offset_by_reciprocal(s, first + threadIdx.x * places + j)];
    }
    __syncthreads();
    for (int j = threadIdx.y; j < kTile; j += 8) {
        out[first + j * places + threadIdx.x] = tile[threadIdx.x][j];
    }
}

template <class T>
void tiles_of_33(const Tensor<T>& t) {
    const auto s = fast_shape_of<T>(t.size, t.from, sizeof(T));
    permute_tiles_of_33<T><<<tiles(t.size), dim3(kTile, 8)>>>(t.in, t.out, s, t.size[4],
                                                              t.size[1] * t.size[2] * t.size[3]);
}
//: end

// Goes through the input in order and computes where each entry belongs.
template <class T>
__global__ void reference_permute(Tensor<T> t, T* expected, size_t count) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        int at[kAxes];
        size_t rest = i;
        for (int axis = kAxes - 1; axis >= 0; --axis) {
            at[axis] = int(rest % t.size[axis]);
            rest /= t.size[axis];
        }
        size_t to = 0;
        for (int axis = 0; axis < kAxes; ++axis) to = to * t.size[t.from[axis]] + at[t.from[axis]];
        expected[to] = t.in[i];
    }
}

template <class T>
Tensor<T> tensor_of(book::Problem& p, const int (&size)[kAxes], const int (&from)[kAxes]) {
    Tensor<T> t{};
    size_t count = 1;
    for (int axis = 0; axis < kAxes; ++axis) {
        t.size[axis] = size[axis];
        t.from[axis] = from[axis];
        count *= size[axis];
    }
    t.in = p.uniform<T>(count, -100, 100);
    t.out = p.output<T>(count);
    p.needs({.dram_bytes = 2.0 * sizeof(T) * count});
    p.check<T>(t.out, count, {0}, [=](T* expected) { reference_permute<<<1056, 256>>>(t, expected, count); });
    return t;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("half_heads", [](book::Problem& p) {
        const auto t = tensor_of<__half>(p, {24, 36, 20, 30, 64}, {0, 3, 1, 2, 4});
        p.variant("divided", [=] { divided(t); });
        p.variant("multiplied", [=] { multiplied(t); });
        p.variant("divided_by_16", [=] { divided_by_16(t); });
        p.variant("multiplied_by_16", [=] { multiplied_by_16(t); });
    });
    book.problem("float_blocks", [](book::Problem& p) {
        const auto t = tensor_of<float>(p, {18, 36, 28, 15, 64}, {0, 2, 1, 3, 4});
        p.variant("divided", [=] { divided(t); });
        p.variant("multiplied", [=] { multiplied(t); });
        p.variant("multiplied_by_8", [=] { multiplied_by_8(t); });
        p.variant("multiplied_by_16", [=] { multiplied_by_16(t); });
    });
    book.problem("int8_heads", [](book::Problem& p) {
        const auto t = tensor_of<int8_t>(p, {36, 24, 40, 30, 64}, {0, 3, 2, 1, 4});
        p.variant("multiplied", [=] { multiplied(t); });
        p.variant("multiplied_by_16", [=] { multiplied_by_16(t); });
    });
    book.problem("float_channels_first", [](book::Problem& p) {
        const auto t = tensor_of<float>(p, {16, 12, 28, 48, 64}, {0, 4, 1, 2, 3});
        p.variant("entries_long", [=] { entries_long(t); });
        p.variant("entries", [=] { entries(t); });
        p.variant("tiles_long", [=] { tiles_long(t); });
        p.variant("tiles_square", [=] { tiles_square(t); });
        p.variant("tiles_of_33", [=] { tiles_of_33(t); });
    });
    return book.finish();
}
