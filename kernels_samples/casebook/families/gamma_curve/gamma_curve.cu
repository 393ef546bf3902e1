// Curves of colour and optics, applied to each value of an image: the sRGB transfer curve, the light
// that passes through absorbing layers, and the complex field of an unwrapped phase map.
#include "../../harness/book.h"

//: shared
// Four neighbouring values, which a thread loads and stores at once.
template <class T>
struct alignas(4 * sizeof(T)) Four {
    T at[4];
};

template <class T>
struct Image {
    size_t count;  // a multiple of 1024
    const T* in;
    T* out;
};

template <class T>
unsigned blocks_of(const Image<T>& image) {
    return unsigned(image.count / 1024);
}
//: end

//: variant srgb
template <class T>
__global__ void encode_srgb(const Four<T>* in, Four<T>* out) {
    const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    Four<T> v = in[i];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const float x = v.at[k];
        v.at[k] = T(x <= 0.0031308f ? 12.92f * x : 1.055f * powf(x, 1 / 2.4f) - 0.055f);
    }
    out[i] = v;
}

template <class T>
void srgb(const Image<T>& image) {
    encode_srgb<<<blocks_of(image), 256>>>(reinterpret_cast<const Four<T>*>(image.in),
                                           reinterpret_cast<Four<T>*>(image.out));
}
//: end

//: variant srgb_intrinsic
template <class T>
__global__ void encode_srgb_intrinsic(const Four<T>* in, Four<T>* out) {
    const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    Four<T> v = in[i];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const float x = v.at[k];
        v.at[k] = T(x <= 0.0031308f ? 12.92f * x : 1.055f * __powf(x, 1 / 2.4f) - 0.055f);
    }
    out[i] = v;
}

template <class T>
void srgb_intrinsic(const Image<T>& image) {
    encode_srgb_intrinsic<<<blocks_of(image), 256>>>(reinterpret_cast<const Four<T>*>(image.in),
                                                     reinterpret_cast<Four<T>*>(image.out));
}
//: end

//: shared
// Band j of the light is absorbed in proportion to j + 1: out = sum of weight[j] exp(-(j + 1) d).
template <int Bands>
struct Spectrum {
    float weight[Bands];
};
//: end

//: variant band_by_band
template <int Bands>
__global__ void transmit_band_by_band(const Four<float>* in, Four<float>* out, Spectrum<Bands> light) {
    const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    Four<float> v = in[i];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const float depth = v.at[k];
        float sum = 0;
#pragma unroll
        for (int j = 0; j < Bands; ++j) sum += light.weight[j] * __expf(-(j + 1) * depth);
        v.at[k] = sum;
    }
    out[i] = v;
}

template <int Bands>
void band_by_band(const Image<float>& image, const Spectrum<Bands>& light) {
    transmit_band_by_band<<<blocks_of(image), 256>>>(reinterpret_cast<const Four<float>*>(image.in),
                                                     reinterpret_cast<Four<float>*>(image.out), light);
}
//: end

//: variant by_powers
template <int Bands>
__global__ void transmit_by_powers(const Four<float>* in, Four<float>* out, Spectrum<Bands> light) {
    const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    Four<float> v = in[i];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const float passed = __expf(-v.at[k]);
        float sum = 0;
#pragma unroll
        for (int j = Bands - 1; j >= 0; --j) sum = (sum + light.weight[j]) * passed;
        v.at[k] = sum;
    }
    out[i] = v;
}

template <int Bands>
void by_powers(const Image<float>& image, const Spectrum<Bands>& light) {
    transmit_by_powers<<<blocks_of(image), 256>>>(reinterpret_cast<const Four<float>*>(image.in),
                                                  reinterpret_cast<Four<float>*>(image.out), light);
}
//: end

//: shared
// The field of each phase (in radians, at most 1e6): out[2 i] its cosine, out[2 i + 1] its sine.
struct Phases {
    size_t count;  // a multiple of 512
    const float* in;
    float* out;
};

inline unsigned blocks_of(const Phases& phases) {
    return unsigned(phases.count / 512);
}
//: end

//: variant field
__global__ void field_of_phase(const float2* in, float4* out) {
    const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    const float2 phase = in[i];
    float4 field;
    sincosf(phase.x, &field.y, &field.x);
    sincosf(phase.y, &field.w, &field.z);
    out[i] = field;
}

void field(const Phases& phases) {
    field_of_phase<<<blocks_of(phases), 256>>>(reinterpret_cast<const float2*>(phases.in),
                                               reinterpret_cast<float4*>(phases.out));
}
//: end

//: variant field_wrapped
// The angle within a turn. 2 pi has two parts, so that some 10^5 turns leave an error below 1e-6.
__device__ float wrapped(float phase) {
    const float turns = rintf(phase * 0.15915494f);
    return fmaf(turns, 1.7484556e-7f, fmaf(turns, -6.2831855f, phase));
}

__global__ void field_of_wrapped_phase(const float2* in, float4* out) {
    const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    const float2 phase = in[i];
    float4 field;
    __sincosf(wrapped(phase.x), &field.y, &field.x);
    __sincosf(wrapped(phase.y), &field.w, &field.z);
    out[i] = field;
}

void field_wrapped(const Phases& phases) {
    field_of_wrapped_phase<<<blocks_of(phases), 256>>>(reinterpret_cast<const float2*>(phases.in),
                                                       reinterpret_cast<float4*>(phases.out));
}
//: end

template <class T>
__global__ void reference_encode(const T* in, T* expected, size_t count) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * blockDim.x) {
        const double x = book::as_double(in[i]);
        const double y = x <= 0.0031308 ? 12.92 * x : 1.055 * pow(x, 1 / 2.4) - 0.055;
        expected[i] = book::from_double<T>(y);
    }
}

template <int Bands>
__global__ void reference_transmit(Image<float> image, Spectrum<Bands> light, float* expected) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < image.count;
         i += size_t{gridDim.x} * blockDim.x) {
        const double passed = exp(-double(image.in[i]));
        double power = 1, sum = 0;
        for (int j = 0; j < Bands; ++j) {
            power *= passed;
            sum += light.weight[j] * power;
        }
        expected[i] = float(sum);
    }
}

__global__ void reference_field(Phases phases, float* expected) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < phases.count;
         i += size_t{gridDim.x} * blockDim.x) {
        expected[2 * i] = float(cos(double(phases.in[i])));
        expected[2 * i + 1] = float(sin(double(phases.in[i])));
    }
}

template <class T>
void encode_problem(book::Book& book, const char* name, size_t count, book::Tolerance allowed) {
    book.problem(name, [=](book::Problem& p) {
        Image<T> image{count};
        image.in = p.uniform<T>(count, 0, 1);
        image.out = p.output<T>(count);
        // A logarithm and an exponential, and a product, a product and a sum around them.
        p.needs({.dram_bytes = 2.0 * sizeof(T) * count, .fp32_flop = 3.0 * count, .special_op = 2.0 * count});
        p.check<T>(image.out, count, allowed, [=](T* expected) {
            reference_encode<<<1056, 256>>>(image.in, expected, count);
        });
        p.variant("srgb", [=] { srgb(image); });
        p.variant("srgb_intrinsic", [=] { srgb_intrinsic(image); });
    });
}

template <int Bands>
void transmit_problem(book::Book& book, const char* name) {
    book.problem(name, [](book::Problem& p) {
        Image<float> image{size_t{16} << 20};
        image.in = p.uniform<float>(image.count, 0, 2);
        image.out = p.output<float>(image.count);
        Spectrum<Bands> light;
        for (int j = 0; j < Bands; ++j) light.weight[j] = float(0.5 + book::uniform01(p.seed(), 91, j));
        p.needs({.dram_bytes = 8.0 * image.count, .fp32_flop = 2.0 * Bands * image.count,
                 .special_op = 1.0 * image.count});
        p.check<float>(image.out, image.count, {3e-5}, [=](float* expected) {
            reference_transmit<<<1056, 256>>>(image, light, expected);
        });
        p.variant("band_by_band", [=] { band_by_band(image, light); });
        p.variant("by_powers", [=] { by_powers(image, light); });
    });
}

void field_problem(book::Book& book, const char* name, double reach) {
    book.problem(name, [=](book::Problem& p) {
        Phases phases{size_t{16} << 20};
        phases.in = p.uniform<float>(phases.count, -reach, reach);
        phases.out = p.output<float>(2 * phases.count);
        p.needs({.dram_bytes = 12.0 * phases.count, .special_op = 2.0 * phases.count});
        p.check<float>(phases.out, 2 * phases.count, {0, 4e-6}, [=](float* expected) {
            reference_field<<<1056, 256>>>(phases, expected);
        });
        p.variant("field", [=] { field(phases); });
        p.variant("field_wrapped", [=] { field_wrapped(phases); });
    });
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    encode_problem<float>(book, "scan_f32", size_t{24} << 20, {2e-5, 1e-6});
    encode_problem<__half>(book, "frames_f16", size_t{48} << 20, {1.5e-3, 1e-6});
    transmit_problem<24>(book, "bands_24");
    transmit_problem<9>(book, "bands_9");
    field_problem(book, "far_phase", 1e6);
    field_problem(book, "near_phase", 50);
    return book.finish();
}
