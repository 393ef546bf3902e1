// Decoding of records: frames of 12-bit samples, decimal numbers as text, time stamps.
#include "../../harness/book.h"

// 32 bytes: channel (2), 18 samples of 12 bits, two after the other in three bytes (27), reserved (2),
// sum of all bytes before (1).
struct Frames {
    int count;
    const unsigned char* frame;
    float2* pulse;  // height above the mean of four samples, scatter; -1 if the sum is wrong
};

// 16 characters: spaces, perhaps a minus, 1 to 5 digits, perhaps a point and 1 to 4 digits.
struct Amounts {
    int count;
    const uint4* text;
    float* amount;
};

// Seconds since 1970, less than 2^31.
struct Stamps {
    int count;
    const long long* seconds;
    unsigned* date;  // from the top: year - 1970 (6 bits), month (4), day (5), hour (5), minute (6), second (6)
};

//: shared
constexpr int kBlock = 256;
constexpr int kSamples = 18;
constexpr int kTrigger = 9;

// Statistics of the samples of a frame.
struct Pulse {
    float highest = -1e30f, first = 0, sum = 0, squares = 0;

    __device__ void add(int j, float v) {
        highest = fmaxf(highest, v);
        if (j < 4) first += v;
        sum += v;
        squares += v * v;
    }
    __device__ float2 result() const {
        return make_float2(highest - 0.25f * first, squares - sum * sum * (1 / 18.0f));
    }
};

// Volts of a sample; after the trigger the amplifier droops.
__device__ inline float volts(int j, int sample) {
    float v = 0.061f * sample - 12.5f;
    if (j >= kTrigger) v *= 1.0f + 0.004f * (j - kTrigger);
    return v;
}

struct Words {
    unsigned w[8];

    __device__ explicit Words(const unsigned char* frame) {
        const uint4* halves = reinterpret_cast<const uint4*>(frame);
        const uint4 a = halves[0], b = halves[1];
        w[0] = a.x, w[1] = a.y, w[2] = a.z, w[3] = a.w;
        w[4] = b.x, w[5] = b.y, w[6] = b.z, w[7] = b.w;
    }
    __device__ int sample(int j) const {
        const int bit = 16 + 12 * j, word = bit / 32, offset = bit % 32;
        if (offset <= 20) return (w[word] >> offset) & 0xFFF;
        return __funnelshift_r(w[word], w[word + 1], offset) & 0xFFF;
    }
    // Four bytes at a time; all but the last byte of the frame.
    __device__ unsigned byte_sum() const {
        unsigned sum = 0;
#pragma unroll
        for (int k = 0; k < 7; ++k) sum = __dp4a(w[k], 0x01010101u, sum);
        return __dp4a(w[7], 0x00010101u, sum) & 0xFF;
    }
};

__device__ inline float scale_of(int digits) {
    return digits == 0 ? 1.0f : digits == 1 ? 0.1f : digits == 2 ? 0.01f : digits == 3 ? 0.001f : 0.0001f;
}

inline int blocks_for(int count) { return (count + kBlock - 1) / kBlock; }
//: end

// --- frames

//: variant frames_bytes
__global__ void decode_bytes(int count, const unsigned char* __restrict__ frames, float2* pulse) {
    const int i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= count) return;
    const unsigned char* frame = frames + size_t(i) * 32;
    unsigned sum = 0;
#pragma unroll
    for (int k = 0; k < 31; ++k) sum += frame[k];
    Pulse p;
#pragma unroll
    for (int j = 0; j < kSamples; j += 2) {
        const unsigned char* pair = frame + 2 + j / 2 * 3;
        p.add(j, volts(j, pair[0] | (pair[1] & 15) << 8));
        p.add(j + 1, volts(j + 1, pair[1] >> 4 | pair[2] << 4));
    }
    const bool good = (sum & 0xFF) == frame[31];
    pulse[i] = good ? p.result() : make_float2(-1, -1);
}

void frames_bytes(const Frames& d) {
    decode_bytes<<<blocks_for(d.count), kBlock>>>(d.count, d.frame, d.pulse);
}
//: end

//: variant frames_words
__global__ void decode_words(int count, const unsigned char* __restrict__ frames, float2* pulse) {
    const int i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= count) return;
    const Words frame(frames + size_t(i) * 32);
    Pulse p;
#pragma unroll
    for (int j = 0; j < kSamples; ++j) p.add(j, volts(j, frame.sample(j)));
    const bool good = frame.byte_sum() == frame.w[7] >> 24;
    pulse[i] = good ? p.result() : make_float2(-1, -1);
}

void frames_words(const Frames& d) {
    decode_words<<<blocks_for(d.count), kBlock>>>(d.count, d.frame, d.pulse);
}
//: end

//: variant frames_words_summed
__global__ void decode_words_summed(int count, const unsigned char* __restrict__ frames, float2* pulse) {
    const int i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= count) return;
    const Words frame(frames + size_t(i) * 32);
    unsigned sum = 0;
#pragma unroll
    for (int k = 0; k < 31; ++k) sum += frame.w[k / 4] >> k % 4 * 8 & 0xFF;
    Pulse p;
#pragma unroll
    for (int j = 0; j < kSamples; ++j) p.add(j, volts(j, frame.sample(j)));
    const bool good = (sum & 0xFF) == frame.w[7] >> 24;
    pulse[i] = good ? p.result() : make_float2(-1, -1);
}

void frames_words_summed(const Frames& d) {
    decode_words_summed<<<blocks_for(d.count), kBlock>>>(d.count, d.frame, d.pulse);
}
//: end

//: variant frames_words_volts
__device__ inline float volts_of(int j, int sample) {
    float v = 0.061 * sample - 12.5;
    if (j >= kTrigger) v *= 1.0 + 0.004 * (j - kTrigger);
    return v;
}

__global__ void decode_words_volts(int count, const unsigned char* __restrict__ frames, float2* pulse) {
    const int i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= count) return;
    const Words frame(frames + size_t(i) * 32);
    Pulse p;
#pragma unroll
    for (int j = 0; j < kSamples; ++j) p.add(j, volts_of(j, frame.sample(j)));
    const bool good = frame.byte_sum() == frame.w[7] >> 24;
    pulse[i] = good ? p.result() : make_float2(-1, -1);
}

void frames_words_volts(const Frames& d) {
    decode_words_volts<<<blocks_for(d.count), kBlock>>>(d.count, d.frame, d.pulse);
}
//: end

// --- amounts

//: variant amounts_long
__global__ void parse_long(int count, const uint4* __restrict__ text, float* amount) {
    const int i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= count) return;
    const uint4 t = text[i];
    const unsigned w[4] = {t.x, t.y, t.z, t.w};
    long long mantissa = 0;
    int digits = 0;
    bool minus = false, point = false;
#pragma unroll
    for (int k = 0; k < 16; ++k) {
        const int c = w[k / 4] >> k % 4 * 8 & 0xFF;
        if (c >= '0' && c <= '9') {
            mantissa = mantissa * 10 + (c - '0');
            if (point) ++digits;
        } else if (c == '-') {
            minus = true;
        } else if (c == '.') {
            point = true;
        }
    }
    const float size = static_cast<float>(mantissa) * scale_of(digits);
    amount[i] = minus ? -size : size;
}

void amounts_long(const Amounts& d) {
    parse_long<<<blocks_for(d.count), kBlock>>>(d.count, d.text, d.amount);
}
//: end

//: variant amounts_int
__global__ void parse_int(int count, const uint4* __restrict__ text, float* amount) {
    const int i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= count) return;
    const uint4 t = text[i];
    const unsigned w[4] = {t.x, t.y, t.z, t.w};
    int mantissa = 0;
    int digits = 0;
    bool minus = false, point = false;
#pragma unroll
    for (int k = 0; k < 16; ++k) {
        const int c = w[k / 4] >> k % 4 * 8 & 0xFF;
        if (c >= '0' && c <= '9') {
            mantissa = mantissa * 10 + (c - '0');
            if (point) ++digits;
        } else if (c == '-') {
            minus = true;
        } else if (c == '.') {
            point = true;
        }
    }
    const float size = static_cast<float>(mantissa) * scale_of(digits);
    amount[i] = minus ? -size : size;
}

void amounts_int(const Amounts& d) {
    parse_int<<<blocks_for(d.count), kBlock>>>(d.count, d.text, d.amount);
}
//: end

//: variant amounts_words
// Of the characters only digits have bit 4; of the others only '-' has bit 0, and only '.' has bit 1.
__device__ inline unsigned digits_in(unsigned w) { return w & ((w >> 4 & 0x01010101u) * 15); }

// Four decimal digits, the first one in the lowest byte.
__device__ inline unsigned number_of(unsigned d) {
    const unsigned pairs = d * 10 + (d >> 8) & 0x00FF00FFu;
    return pairs * 100 + (pairs >> 16) & 0xFFFFu;
}

__global__ void parse_words(int count, const uint4* __restrict__ text, float* amount) {
    const int i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= count) return;
    const uint4 t = text[i];
    const unsigned others = t.x & ~(t.x >> 4) | t.y & ~(t.y >> 4) | t.z & ~(t.z >> 4) | t.w & ~(t.w >> 4);
    const bool minus = others & 0x01010101u;
    // The point is the last character but at most four: bit 0 for character 11, 8 for 12, and so on.
    const unsigned point = __funnelshift_l(t.z >> 1 & ~(t.z >> 4), t.w >> 1 & ~(t.w >> 4), 8) & 0x01010101u;
    const int digits = point ? 4 - (__ffs(point) - 1) / 8 : 0;
    // Characters up to the point move one place to the right.
    const int move = point ? 8 : 0;
    const unsigned stays = point ? ~0u << (4 - digits) * 8 : ~0u;
    const unsigned a = digits_in(t.x), b = digits_in(t.y), c = digits_in(t.z), d = digits_in(t.w);
    const unsigned last = d & stays | __funnelshift_l(c, d, move) & ~stays;
    const unsigned high = number_of(a << move) * 10000 + number_of(__funnelshift_l(a, b, move));
    const unsigned low = number_of(__funnelshift_l(b, c, move)) * 10000 + number_of(last);
    const float size = (static_cast<float>(high) * 1e8f + static_cast<float>(low)) * scale_of(digits);
    amount[i] = minus ? -size : size;
}

void amounts_words(const Amounts& d) {
    parse_words<<<blocks_for(d.count), kBlock>>>(d.count, d.text, d.amount);
}
//: end

// --- time stamps

//: shared
// Year, month and day of a day since 1970-01-01, by eras of 400 years that begin in March.
template <class Int>
__device__ inline unsigned date_of(Int days, Int second_of_day) {
    const Int shifted = days + 719468;
    const Int era = shifted / 146097;
    const Int day_of_era = shifted - era * 146097;
    const Int year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    const Int day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    const Int march_month = (5 * day_of_year + 2) / 153;
    const Int day = day_of_year - (153 * march_month + 2) / 5 + 1;
    const Int month = march_month < 10 ? march_month + 3 : march_month - 9;
    const Int year = year_of_era + era * 400 + (month <= 2 ? 1 : 0);
    const Int hour = second_of_day / 3600, minute = second_of_day % 3600 / 60;
    const Int second = second_of_day % 60;
    return static_cast<unsigned>((year - 1970) << 26 | month << 22 | day << 17 | hour << 12 | minute << 6 |
                                 second);
}
//: end

//: variant stamps_long
__global__ void stamps_in_long(int count, const long long* __restrict__ seconds, unsigned* date) {
    const int i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= count) return;
    const long long s = seconds[i];
    date[i] = date_of<long long>(s / 86400, s % 86400);
}

void stamps_long(const Stamps& d) {
    stamps_in_long<<<blocks_for(d.count), kBlock>>>(d.count, d.seconds, d.date);
}
//: end

//: variant stamps_split
// Days and seconds of a day fit 32 bits.
__global__ void stamps_split_first(int count, const long long* __restrict__ seconds, unsigned* date) {
    const int i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= count) return;
    const long long s = seconds[i];
    date[i] = date_of<unsigned>(static_cast<unsigned>(s / 86400), static_cast<unsigned>(s % 86400));
}

void stamps_split(const Stamps& d) {
    stamps_split_first<<<blocks_for(d.count), kBlock>>>(d.count, d.seconds, d.date);
}
//: end

// --- references

__global__ void reference_frames(int count, const unsigned char* frames, float2* expected) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const unsigned char* frame = frames + size_t(i) * 32;
    int total = 0;
    for (int k = 0; k < 31; ++k) total += frame[k];
    double most = -1e300, first = 0, sum = 0, squares = 0;
    for (int j = 0; j < 18; ++j) {
        int sample = 0;
        for (int bit = 0; bit < 12; ++bit) {
            const int at = 16 + 12 * j + bit;
            sample |= (frame[at / 8] >> at % 8 & 1) << bit;
        }
        double v = 0.061 * sample - 12.5;
        if (j > 8) v *= 1 + 0.004 * (j - 9);
        most = v > most ? v : most;
        if (j < 4) first += v;
        sum += v;
        squares += v * v;
    }
    expected[i] = total % 256 == frame[31]
                      ? make_float2(float(most - first / 4), float(squares - sum * sum / 18))
                      : make_float2(-1, -1);
}

// From the last character to the first.
__global__ void reference_amounts(int count, const unsigned char* text, float* expected) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    double value = 0, place = 1;
    for (int k = 15; k >= 0; --k) {
        const char c = static_cast<char>(text[size_t(i) * 16 + k]);
        if (c == '.') {
            value /= place;
            place = 1;
        } else if (c == '-') {
            value = -value;
        } else if (c != ' ') {
            value += (c - '0') * place;
            place *= 10;
        }
    }
    expected[i] = float(value);
}

__global__ void reference_stamps(int count, const long long* seconds, unsigned* expected) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const int rest = int(seconds[i] % 86400);
    int days = int(seconds[i] / 86400), year = 1970, month = 1;
    while (days >= (year % 4 == 0 ? 366 : 365)) days -= year++ % 4 == 0 ? 366 : 365;
    for (;; ++month) {
        const int length = month == 2 ? (year % 4 == 0 ? 29 : 28)
                                      : month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
        if (days < length) break;
        days -= length;
    }
    const unsigned fields[6] = {unsigned(year - 1970), unsigned(month), unsigned(days + 1),
                                unsigned(rest / 3600), unsigned(rest / 60 % 60), unsigned(rest % 60)};
    const int widths[6] = {6, 4, 5, 5, 6, 6};
    unsigned packed = 0;
    for (int k = 0; k < 6; ++k) packed = (packed << widths[k]) + fields[k];
    expected[i] = packed;
}

// --- inputs

__host__ __device__ inline unsigned frame_word(uint64_t seed, size_t frame, int k) {
    return static_cast<unsigned>(book::mixed((frame * 8 + k) ^ book::mixed(seed + 1234)));
}

// Half of a frame. One frame of 64 has a wrong sum.
__host__ __device__ inline uint4 frame_half(uint64_t seed, size_t half) {
    const size_t frame = half / 2;
    unsigned word[8], sum = 0;
    for (int k = 0; k < 8; ++k) {
        word[k] = frame_word(seed, frame, k);
        for (int b = 0; b < (k == 7 ? 3 : 4); ++b) sum += word[k] >> 8 * b & 0xFF;
    }
    if (book::uniform01(seed, 55, frame) < 1.0 / 64) ++sum;
    word[7] = (word[7] & 0x00FFFFFFu) | sum << 24;
    if (half % 2 == 0) return uint4{word[0], word[1], word[2], word[3]};
    return uint4{word[4], word[5], word[6], word[7]};
}

__host__ __device__ inline uint4 amount_text(uint64_t seed, size_t i) {
    uint64_t bits = book::mixed(i ^ book::mixed(seed + 4321));
    const int whole = 1 + int(bits % 5), part = int(bits / 5 % 5);
    const bool minus = bits >> 60 & 1;
    unsigned w[4] = {0x20202020u, 0x20202020u, 0x20202020u, 0x20202020u};
    int at = 15;
    const auto put = [&](unsigned c) {
        w[at / 4] = (w[at / 4] & ~(0xFFu << at % 4 * 8)) | c << at % 4 * 8;
        --at;
    };
    bits = book::mixed(bits);
    for (int k = 0; k < part; ++k, bits /= 10) put('0' + unsigned(bits % 10));
    if (part) put('.');
    for (int k = 0; k < whole; ++k, bits /= 10) put('0' + unsigned(bits % 10));
    if (minus) put('-');
    return uint4{w[0], w[1], w[2], w[3]};
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("frames", [](book::Problem& p) {
        Frames d{1 << 22};
        const uint64_t seed = p.seed();
        const uint4* halves = p.input<uint4>(
            size_t(d.count) * 2, [=] __device__(size_t i) { return frame_half(seed, i); });
        d.frame = reinterpret_cast<const unsigned char*>(halves);
        d.pulse = p.output<float2>(d.count);
        p.needs({.dram_bytes = 40.0 * d.count, .fp32_flop = 100.0 * d.count, .int_op = 45.0 * d.count});
        p.check<float>(&d.pulse->x, size_t(d.count) * 2, {1e-4, 2e-2}, [=](float* expected) {
            reference_frames<<<(d.count + 255) / 256, 256>>>(d.count, d.frame,
                                                             reinterpret_cast<float2*>(expected));
        });
        p.variant("frames_bytes", [=] { frames_bytes(d); });
        p.variant("frames_words_volts", [=] { frames_words_volts(d); });
        p.variant("frames_words_summed", [=] { frames_words_summed(d); });
        p.variant("frames_words", [=] { frames_words(d); });
    });
    book.problem("amounts", [](book::Problem& p) {
        Amounts d{1 << 23};
        const uint64_t seed = p.seed();
        d.text = p.input<uint4>(d.count, [=] __device__(size_t i) { return amount_text(seed, i); });
        d.amount = p.output<float>(d.count);
        p.needs({.dram_bytes = 20.0 * d.count, .int_op = 40.0 * d.count});
        p.check<float>(d.amount, d.count, {1e-6}, [=](float* expected) {
            reference_amounts<<<(d.count + 255) / 256, 256>>>(
                d.count, reinterpret_cast<const unsigned char*>(d.text), expected);
        });
        p.variant("amounts_long", [=] { amounts_long(d); });
        p.variant("amounts_int", [=] { amounts_int(d); });
        p.variant("amounts_words", [=] { amounts_words(d); });
    });
    book.problem("stamps", [](book::Problem& p) {
        Stamps d{1 << 23};
        d.seconds = p.uniform<long long>(d.count, 0, 2e9);
        d.date = p.output<unsigned>(d.count);
        p.needs({.dram_bytes = 12.0 * d.count, .int_op = 35.0 * d.count});
        p.check<unsigned>(d.date, d.count, {0}, [=](unsigned* expected) {
            reference_stamps<<<(d.count + 255) / 256, 256>>>(d.count, d.seconds, expected);
        });
        p.variant("stamps_long", [=] { stamps_long(d); });
        p.variant("stamps_split", [=] { stamps_split(d); });
    });
    return book.finish();
}
