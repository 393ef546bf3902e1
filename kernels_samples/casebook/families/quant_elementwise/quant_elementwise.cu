// Maps between int8, half, bfloat16 and float: dequantisation, activations, fake quantisation.
#include "../../harness/book.h"

struct Dequant {
    int rows, columns;
    const int8_t* codes;
    const float* scale;  // of each row
    __half* out;
};

struct Activation {
    size_t count;
    const int8_t* in;
    int8_t* out;
    float in_scale, out_inverse;
};

struct Gelu {
    int rows, columns;
    const __nv_bfloat16* in;
    const __nv_bfloat16* bias;
    __nv_bfloat16* between;
    __nv_bfloat16* out;
    float scale;
};

struct Fake {
    int count;
    const float* in;
    float* out;
    float step, inverse;
};

// --- int8 codes to half, one scale a row

//: variant one_code
__global__ void dequant_one(const int8_t* codes, const float* scale, __half* out, int columns) {
    const int row = blockIdx.y;
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    const size_t i = size_t(row) * columns + column;
    out[i] = __float2half(codes[i] * scale[row]);
}

void one_code(const Dequant& d) {
    dequant_one<<<dim3(d.columns / 256, d.rows), 256>>>(d.codes, d.scale, d.out, d.columns);
}
//: end

//: variant eight_codes
__device__ __half2 two_codes(unsigned word, int first, float scale) {
    return __floats2half2_rn(static_cast<int8_t>(word >> (8 * first)) * scale,
                             static_cast<int8_t>(word >> (8 * first + 8)) * scale);
}

__global__ void dequant_eight(const uint2* codes, const float* scale, uint4* out, int groups) {
    const int row = blockIdx.y;
    const int group = blockIdx.x * blockDim.x + threadIdx.x;
    const size_t i = size_t(row) * groups + group;
    const uint2 packed = codes[i];
    const float s = scale[row];
    union {
        __half2 halves[4];
        uint4 vector;
    } result;
    result.halves[0] = two_codes(packed.x, 0, s);
    result.halves[1] = two_codes(packed.x, 2, s);
    result.halves[2] = two_codes(packed.y, 0, s);
    result.halves[3] = two_codes(packed.y, 2, s);
    out[i] = result.vector;
}

void eight_codes(const Dequant& d) {
    dequant_eight<<<dim3(d.columns / 8 / 256, d.rows), 256>>>(
        reinterpret_cast<const uint2*>(d.codes), d.scale, reinterpret_cast<uint4*>(d.out), d.columns / 8);
}
//: end

//: variant eight_codes_flat
__device__ __half2 scaled_pair(unsigned word, int first, float scale) {
    return __floats2half2_rn(static_cast<int8_t>(word >> (8 * first)) * scale,
                             static_cast<int8_t>(word >> (8 * first + 8)) * scale);
}

__global__ void dequant_flat(const uint2* codes, const float* scale, uint4* out, unsigned groups,
                             unsigned rows) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned row = i / groups % rows;
    const uint2 packed = codes[i];
    const float s = scale[row];
    union {
        __half2 halves[4];
        uint4 vector;
    } result;
    result.halves[0] = scaled_pair(packed.x, 0, s);
    result.halves[1] = scaled_pair(packed.x, 2, s);
    result.halves[2] = scaled_pair(packed.y, 0, s);
    result.halves[3] = scaled_pair(packed.y, 2, s);
    out[i] = result.vector;
}

void eight_codes_flat(const Dequant& d) {
    dequant_flat<<<d.rows * (d.columns / 8 / 256), 256>>>(
        reinterpret_cast<const uint2*>(d.codes), d.scale, reinterpret_cast<uint4*>(d.out), d.columns / 8,
        d.rows);
}
//: end

// --- SiLU on int8 codes

//: shared
template <class F>
__device__ unsigned four_codes(unsigned word, F map) {
    unsigned result = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        result |= (map((word >> (8 * k)) & 0xFFu) & 0xFFu) << (8 * k);
    }
    return result;
}

template <class F>
__device__ void sixteen_codes(const uint4* in, uint4* out, size_t i, F map) {
    const uint4 v = in[i];
    out[i] = make_uint4(four_codes(v.x, map), four_codes(v.y, map), four_codes(v.z, map),
                        four_codes(v.w, map));
}
//: end

//: variant literal
__global__ void silu_literal(const uint4* in, uint4* out, float in_scale, float out_inverse) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    sixteen_codes(in, out, i, [=](unsigned code) {
        const float x = static_cast<int8_t>(code) * in_scale;
        const float y = x / (1.0 + __expf(-x));
        return static_cast<unsigned>(max(-128, min(127, __float2int_rn(y * out_inverse))));
    });
}

void literal(const Activation& d) {
    silu_literal<<<unsigned(d.count / 16 / 256), 256>>>(reinterpret_cast<const uint4*>(d.in),
                                                        reinterpret_cast<uint4*>(d.out), d.in_scale,
                                                        d.out_inverse);
}
//: end

//: variant formula
__global__ void silu_formula(const uint4* in, uint4* out, float in_scale, float out_inverse) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    sixteen_codes(in, out, i, [=](unsigned code) {
        const float x = static_cast<int8_t>(code) * in_scale;
        const float y = __fdividef(x, 1.0f + __expf(-x));
        return static_cast<unsigned>(max(-128, min(127, __float2int_rn(y * out_inverse))));
    });
}

void formula(const Activation& d) {
    silu_formula<<<unsigned(d.count / 16 / 256), 256>>>(reinterpret_cast<const uint4*>(d.in),
                                                        reinterpret_cast<uint4*>(d.out), d.in_scale,
                                                        d.out_inverse);
}
//: end

//: variant half_angle
__device__ float tanh_unit(float x) {
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__global__ void silu_half_angle(const uint4* in, uint4* out, float in_scale, float out_inverse) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    const float half_scale = 0.5f * in_scale;
    sixteen_codes(in, out, i, [=](unsigned code) {
        // 2^23 + code + 128 as a float, and back: the integer is in the low bits of the mantissa.
        const float q = __uint_as_float(0x4B000000u | (code ^ 0x80u)) - 8388736.0f;
        const float h = q * half_scale;
        const float y = fmaf(h, tanh_unit(h), h);
        const float clamped = fminf(fmaxf(y * out_inverse, -128.0f), 127.0f);
        return __float_as_uint(clamped + 12582912.0f);
    });
}

void half_angle(const Activation& d) {
    silu_half_angle<<<unsigned(d.count / 16 / 256), 256>>>(reinterpret_cast<const uint4*>(d.in),
                                                           reinterpret_cast<uint4*>(d.out), d.in_scale,
                                                           d.out_inverse);
}
//: end

// --- bias, GELU and a scale on bfloat16

//: shared
__device__ float gelu(float x) {
    const float u = 0.7978845608f * fmaf(0.044715f * x * x, x, x);
    return __fdividef(x, 1.0f + __expf(-2.0f * u));
}

union Eight {
    uint4 vector;
    __nv_bfloat162 pairs[4];
};
//: end

//: variant split_single
__global__ void bias_single(const __nv_bfloat16* in, const __nv_bfloat16* bias, __nv_bfloat16* out,
                            int columns) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    const size_t i = size_t(blockIdx.y) * columns + column;
    out[i] = __float2bfloat16(__bfloat162float(in[i]) + __bfloat162float(bias[column]));
}

__global__ void gelu_single(const __nv_bfloat16* in, __nv_bfloat16* out, float scale, int columns) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    const size_t i = size_t(blockIdx.y) * columns + column;
    out[i] = __float2bfloat16(scale * gelu(__bfloat162float(in[i])));
}

void split_single(const Gelu& d) {
    const dim3 grid(d.columns / 256, d.rows);
    bias_single<<<grid, 256>>>(d.in, d.bias, d.between, d.columns);
    gelu_single<<<grid, 256>>>(d.between, d.out, d.scale, d.columns);
}
//: end

//: variant fused_single
__global__ void bias_gelu_single(const __nv_bfloat16* in, const __nv_bfloat16* bias,
                                 __nv_bfloat16* out, float scale, int columns) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    const size_t i = size_t(blockIdx.y) * columns + column;
    out[i] = __float2bfloat16(scale * gelu(__bfloat162float(in[i]) + __bfloat162float(bias[column])));
}

void fused_single(const Gelu& d) {
    const dim3 grid(d.columns / 256, d.rows);
    bias_gelu_single<<<grid, 256>>>(d.in, d.bias, d.out, d.scale, d.columns);
}
//: end

//: variant split_eight
__global__ void bias_eight(const uint4* in, const uint4* bias, uint4* out, int groups) {
    const int group = blockIdx.x * blockDim.x + threadIdx.x;
    const size_t i = size_t(blockIdx.y) * groups + group;
    Eight v, b;
    v.vector = in[i];
    b.vector = bias[group];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const float2 x = __bfloat1622float2(v.pairs[k]), y = __bfloat1622float2(b.pairs[k]);
        v.pairs[k] = __floats2bfloat162_rn(x.x + y.x, x.y + y.y);
    }
    out[i] = v.vector;
}

__global__ void gelu_eight(const uint4* in, uint4* out, float scale, int groups) {
    const int group = blockIdx.x * blockDim.x + threadIdx.x;
    const size_t i = size_t(blockIdx.y) * groups + group;
    Eight v;
    v.vector = in[i];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const float2 x = __bfloat1622float2(v.pairs[k]);
        v.pairs[k] = __floats2bfloat162_rn(scale * gelu(x.x), scale * gelu(x.y));
    }
    out[i] = v.vector;
}

void split_eight(const Gelu& d) {
    const int groups = d.columns / 8;
    const dim3 grid(groups / 256, d.rows);
    bias_eight<<<grid, 256>>>(reinterpret_cast<const uint4*>(d.in),
                              reinterpret_cast<const uint4*>(d.bias),
                              reinterpret_cast<uint4*>(d.between), groups);
    gelu_eight<<<grid, 256>>>(reinterpret_cast<const uint4*>(d.between),
                              reinterpret_cast<uint4*>(d.out), d.scale, groups);
}
//: end

//: variant fused_eight
__global__ void bias_gelu_eight(const uint4* in, const uint4* bias, uint4* out, float scale, int groups) {
    const int group = blockIdx.x * blockDim.x + threadIdx.x;
    const size_t i = size_t(blockIdx.y) * groups + group;
    Eight v, b;
    v.vector = in[i];
    b.vector = bias[group];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const float2 x = __bfloat1622float2(v.pairs[k]), y = __bfloat1622float2(b.pairs[k]);
        v.pairs[k] = __floats2bfloat162_rn(scale * gelu(x.x + y.x), scale * gelu(x.y + y.y));
    }
    out[i] = v.vector;
}

void fused_eight(const Gelu& d) {
    const int groups = d.columns / 8;
    bias_gelu_eight<<<dim3(groups / 256, d.rows), 256>>>(
        reinterpret_cast<const uint4*>(d.in), reinterpret_cast<const uint4*>(d.bias),
        reinterpret_cast<uint4*>(d.out), d.scale, groups);
}
//: end

//: variant fused_tanh
__device__ float gelu_by_tanh(float x) {
    const float u = 0.7978845608f * fmaf(0.044715f * x * x, x, x);
    float t;
    asm("tanh.approx.f32 %0, %1;" : "=f"(t) : "f"(u));
    const float h = 0.5f * x;
    return fmaf(h, t, h);
}

__global__ void bias_gelu_tanh(const uint4* in, const uint4* bias, uint4* out, float scale, int groups) {
    const int group = blockIdx.x * blockDim.x + threadIdx.x;
    const size_t i = size_t(blockIdx.y) * groups + group;
    Eight v, b;
    v.vector = in[i];
    b.vector = bias[group];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const float2 x = __bfloat1622float2(v.pairs[k]), y = __bfloat1622float2(b.pairs[k]);
        v.pairs[k] =
            __floats2bfloat162_rn(scale * gelu_by_tanh(x.x + y.x), scale * gelu_by_tanh(x.y + y.y));
    }
    out[i] = v.vector;
}

void fused_tanh(const Gelu& d) {
    const int groups = d.columns / 8;
    bias_gelu_tanh<<<dim3(groups / 256, d.rows), 256>>>(
        reinterpret_cast<const uint4*>(d.in), reinterpret_cast<const uint4*>(d.bias),
        reinterpret_cast<uint4*>(d.out), d.scale, groups);
}
//: end

// --- fake quantisation of float

//: shared
__device__ float fake(float x, float step, float inverse) {
    return step * fminf(fmaxf(rintf(x * inverse), -127.0f), 127.0f);
}
//: end

//: variant floats
__global__ void fake_floats(const float* in, float* out, int count, float step, float inverse) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = fake(in[i], step, inverse);
}

void floats(const Fake& d) {
    fake_floats<<<d.count / 512, 512>>>(d.in, d.out, d.count, d.step, d.inverse);
}
//: end

//: variant pairs
__global__ void fake_pairs(const float2* in, float2* out, int count, float step, float inverse) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        const float2 v = in[i];
        out[i] = make_float2(fake(v.x, step, inverse), fake(v.y, step, inverse));
    }
}

void pairs(const Fake& d) {
    fake_pairs<<<d.count / 1024, 512>>>(reinterpret_cast<const float2*>(d.in),
                                        reinterpret_cast<float2*>(d.out), d.count / 2, d.step, d.inverse);
}
//: end

//: variant quads
__global__ void fake_quads(const float4* in, float4* out, int count, float step, float inverse) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        const float4 v = in[i];
        out[i] = make_float4(fake(v.x, step, inverse), fake(v.y, step, inverse),
                             fake(v.z, step, inverse), fake(v.w, step, inverse));
    }
}

void quads(const Fake& d) {
    fake_quads<<<d.count / 2048, 512>>>(reinterpret_cast<const float4*>(d.in),
                                        reinterpret_cast<float4*>(d.out), d.count / 4, d.step, d.inverse);
}
//: end

__global__ void reference_dequant(Dequant d, __half* expected) {
    const size_t count = size_t(d.rows) * d.columns;
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        expected[i] = __float2half(float(double(d.codes[i]) * double(d.scale[i / d.columns])));
    }
}

__global__ void reference_silu(Activation d, int8_t* expected) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < d.count;
         i += size_t{gridDim.x} * blockDim.x) {
        const float x = float(d.in[i]) * d.in_scale;
        const float y = x / (1.0f + expf(-x)) * d.out_inverse;
        expected[i] = static_cast<int8_t>(rintf(fminf(fmaxf(y, -128.0f), 127.0f)));
    }
}

__global__ void reference_gelu(Gelu d, __nv_bfloat16* expected) {
    const size_t count = size_t(d.rows) * d.columns;
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        const float x = __bfloat162float(d.in[i]) + __bfloat162float(d.bias[i % d.columns]);
        const float t = tanhf(0.7978845608f * (x + 0.044715f * x * x * x));
        expected[i] = __float2bfloat16(d.scale * 0.5f * x * (1.0f + t));
    }
}

__global__ void reference_fake(Fake d, float* expected) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < d.count; i += gridDim.x * blockDim.x) {
        const double q = rint(double(d.in[i] * d.inverse));
        expected[i] = float(double(d.step) * fmin(fmax(q, -127.0), 127.0));
    }
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("dequant_i8_f16", [](book::Problem& p) {
        Dequant d{4096, 16384};
        const size_t count = size_t(d.rows) * d.columns;
        d.codes = p.uniform<int8_t>(count, -128, 128);
        d.scale = p.uniform<float>(d.rows, 0.001, 0.1);
        d.out = p.output<__half>(count);
        p.needs({.dram_bytes = 3.0 * count + 4.0 * d.rows});
        p.check<__half>(d.out, count, {1e-3, 1e-6}, [=](__half* expected) {
            reference_dequant<<<1056, 256>>>(d, expected);
        });
        p.variant("one_code", [=] { one_code(d); });
        p.variant("eight_codes_flat", [=] { eight_codes_flat(d); });
        p.variant("eight_codes", [=] { eight_codes(d); });
    });
    book.problem("silu_i8", [](book::Problem& p) {
        Activation d{size_t{96} << 20};
        d.in = p.uniform<int8_t>(d.count, -128, 128);
        d.out = p.output<int8_t>(d.count);
        d.in_scale = 0.05f;
        d.out_inverse = 18.0f;
        p.needs({.dram_bytes = 2.0 * d.count, .special_op = 1.0 * d.count});
        p.check<int8_t>(d.out, d.count, {0, 1.0}, [=](int8_t* expected) {
            reference_silu<<<1056, 256>>>(d, expected);
        });
        p.variant("literal", [=] { literal(d); });
        p.variant("formula", [=] { formula(d); });
        p.variant("half_angle", [=] { half_angle(d); });
    });
    book.problem("gelu_bf16", [](book::Problem& p) {
        Gelu d{8192, 6144};
        const size_t count = size_t(d.rows) * d.columns;
        d.in = p.uniform<__nv_bfloat16>(count, -4, 4);
        d.bias = p.uniform<__nv_bfloat16>(d.columns, -1, 1);
        d.between = p.output<__nv_bfloat16>(count);
        d.out = p.output<__nv_bfloat16>(count);
        d.scale = 1.25f;
        p.needs({.dram_bytes = 4.0 * count + 2.0 * d.columns, .special_op = 1.0 * count});
        p.check<__nv_bfloat16>(d.out, count, {0.02, 0.02}, [=](__nv_bfloat16* expected) {
            reference_gelu<<<1056, 256>>>(d, expected);
        });
        p.variant("split_single", [=] { split_single(d); });
        p.variant("fused_single", [=] { fused_single(d); });
        p.variant("split_eight", [=] { split_eight(d); });
        p.variant("fused_eight", [=] { fused_eight(d); });
        p.variant("fused_tanh", [=] { fused_tanh(d); });
    });
    book.problem("fake_f32", [](book::Problem& p) {
        Fake d{24 << 20};
        d.in = p.uniform<float>(d.count, -2, 2);
        d.out = p.output<float>(d.count);
        d.step = 0.0125f;
        d.inverse = 80.0f;
        p.needs({.dram_bytes = 8.0 * d.count});
        p.check<float>(d.out, d.count, {1e-6, 1e-7}, [=](float* expected) {
            reference_fake<<<1056, 256>>>(d, expected);
        });
        p.variant("floats", [=] { floats(d); });
        p.variant("pairs", [=] { pairs(d); });
        p.variant("quads", [=] { quads(d); });
    });
    return book.finish();
}
