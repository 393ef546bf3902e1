// Joins through a hash table: probing a table of unique keys, sums by key, work on what matches.
#include "../../harness/book.h"

struct Data {
    size_t count;
    const int2* table;      // key and payload, linear probing, -1: empty
    const int* key;
    const int* host_key;    // the same in memory of the host
    int* device_key;        // room for a copy
    const float* amount;
    const float* rate;      // by payload
    float* balance;
    int* payload;
    unsigned* matches;
    const unsigned* value;
    unsigned* sum;          // by key
};

//: shared
constexpr int kBlock = 256, kResident = 132 * 8, kItems = 4;
constexpr int kSlots = 1 << 20;
constexpr int kSteps = 160;

__host__ __device__ inline unsigned slot_of(unsigned key) {
    key ^= key >> 16;
    key *= 0x85ebca6bu;
    key ^= key >> 13;
    key *= 0xc2b2ae35u;
    key ^= key >> 16;
    return key & (kSlots - 1);
}

// The payload of a key, or -1.
__device__ inline int find(const int2* __restrict__ table, int key) {
    for (unsigned slot = slot_of(key);; slot = (slot + 1) & (kSlots - 1)) {
        const int2 entry = table[slot];
        if (entry.x == key) return entry.y;
        if (entry.x < 0) return -1;
    }
}

inline unsigned tiles(size_t count) { return unsigned((count + kItems * kBlock - 1) / (kItems * kBlock)); }
//: end

// --- what an account holds after some steps, for the rows that match

//: variant direct_terms
__device__ inline float after_steps(float amount, float rate) {
    for (int step = 0; step < kSteps; ++step) {
        amount = amount * (1.0 + rate) - 0.01;
        rate *= 0.995;
    }
    return amount;
}

__global__ void balances_direct_terms(const int2* __restrict__ table, const int* __restrict__ key,
                                      const float* __restrict__ amount, const float* __restrict__ rate,
                                      float* __restrict__ balance, size_t count) {
    const size_t first = blockIdx.x * size_t{kItems * kBlock} + threadIdx.x;
    for (int k = 0; k < kItems; ++k) {
        const size_t i = first + k * kBlock;
        if (i >= count) return;
        const int found = find(table, key[i]);
        balance[i] = found >= 0 ? after_steps(amount[i], rate[found]) : 0.f;
    }
}

void direct_terms(const Data& d) {
    balances_direct_terms<<<tiles(d.count), kBlock>>>(d.table, d.key, d.amount, d.rate, d.balance,
                                                      d.count);
}
//: end

//: variant direct
__device__ inline float grown(float amount, float rate) {
    for (int step = 0; step < kSteps; ++step) {
        amount = amount * (1.0f + rate) - 0.01f;
        rate *= 0.995f;
    }
    return amount;
}

__global__ void balances_direct(const int2* __restrict__ table, const int* __restrict__ key,
                                const float* __restrict__ amount, const float* __restrict__ rate,
                                float* __restrict__ balance, size_t count) {
    const size_t first = blockIdx.x * size_t{kItems * kBlock} + threadIdx.x;
    for (int k = 0; k < kItems; ++k) {
        const size_t i = first + k * kBlock;
        if (i >= count) return;
        const int found = find(table, key[i]);
        balance[i] = found >= 0 ? grown(amount[i], rate[found]) : 0.f;
    }
}

void direct(const Data& d) {
    balances_direct<<<tiles(d.count), kBlock>>>(d.table, d.key, d.amount, d.rate, d.balance, d.count);
}
//: end

//: variant listed_terms
__device__ inline float listed_after_steps(float amount, float rate) {
    for (int step = 0; step < kSteps; ++step) {
        amount = amount * (1.0 + rate) - 0.01;
        rate *= 0.995;
    }
    return amount;
}

__global__ void balances_listed_terms(const int2* __restrict__ table, const int* __restrict__ key,
                                      const float* __restrict__ amount, const float* __restrict__ rate,
                                      float* __restrict__ balance, size_t count) {
    __shared__ int2 matched[kItems * kBlock];  // item of the tile, payload
    __shared__ int matches;
    if (threadIdx.x == 0) matches = 0;
    __syncthreads();
    const size_t tile = blockIdx.x * size_t{kItems * kBlock};
    for (int k = 0; k < kItems; ++k) {
        const int item = k * kBlock + threadIdx.x;
        if (tile + item >= count) break;
        const int found = find(table, key[tile + item]);
        if (found >= 0) {
            matched[atomicAdd(&matches, 1)] = {item, found};
        } else {
            balance[tile + item] = 0.f;
        }
    }
    __syncthreads();
    for (int m = threadIdx.x; m < matches; m += kBlock) {
        const int2 match = matched[m];
        balance[tile + match.x] = listed_after_steps(amount[tile + match.x], rate[match.y]);
    }
}

void listed_terms(const Data& d) {
    balances_listed_terms<<<tiles(d.count), kBlock>>>(d.table, d.key, d.amount, d.rate, d.balance,
                                                      d.count);
}
//: end

//: variant listed
__device__ inline float listed_grown(float amount, float rate) {
    for (int step = 0; step < kSteps; ++step) {
        amount = amount * (1.0f + rate) - 0.01f;
        rate *= 0.995f;
    }
    return amount;
}

__global__ void balances_listed(const int2* __restrict__ table, const int* __restrict__ key,
                                const float* __restrict__ amount, const float* __restrict__ rate,
                                float* __restrict__ balance, size_t count) {
    __shared__ int2 matched[kItems * kBlock];  // item of the tile, payload
    __shared__ int matches;
    if (threadIdx.x == 0) matches = 0;
    __syncthreads();
    const size_t tile = blockIdx.x * size_t{kItems * kBlock};
    for (int k = 0; k < kItems; ++k) {
        const int item = k * kBlock + threadIdx.x;
        if (tile + item >= count) break;
        const int found = find(table, key[tile + item]);
        if (found >= 0) {
            matched[atomicAdd(&matches, 1)] = {item, found};
        } else {
            balance[tile + item] = 0.f;
        }
    }
    __syncthreads();
    for (int m = threadIdx.x; m < matches; m += kBlock) {
        const int2 match = matched[m];
        balance[tile + match.x] = listed_grown(amount[tile + match.x], rate[match.y]);
    }
}

void listed(const Data& d) {
    balances_listed<<<tiles(d.count), kBlock>>>(d.table, d.key, d.amount, d.rate, d.balance, d.count);
}
//: end

// --- keys that the host owns: first the number of matches, then their payloads

//: shared
__global__ void count_matches(const int2* __restrict__ table, const int* __restrict__ key, size_t count,
                              unsigned* matches) {
    unsigned found = 0;
    for (size_t i = blockIdx.x * size_t{kBlock} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * kBlock) {
        found += find(table, key[i]) >= 0;
    }
    found = __reduce_add_sync(0xffffffffu, found);
    if (threadIdx.x % 32 == 0) atomicAdd(matches, found);
}

__global__ void payloads(const int2* __restrict__ table, const int* __restrict__ key, size_t count,
                         int* __restrict__ payload) {
    for (size_t i = blockIdx.x * size_t{kBlock} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * kBlock) {
        payload[i] = find(table, key[i]);
    }
}
//: end

//: variant keys_in_place
void keys_in_place(const Data& d) {
    count_matches<<<kResident, kBlock>>>(d.table, d.host_key, d.count, d.matches);
    payloads<<<kResident, kBlock>>>(d.table, d.host_key, d.count, d.payload);
}
//: end

//: variant keys_copied
void keys_copied(const Data& d) {
    BOOK_CHECK(cudaMemcpyAsync(d.device_key, d.host_key, sizeof(int) * d.count, cudaMemcpyHostToDevice));
    count_matches<<<kResident, kBlock>>>(d.table, d.device_key, d.count, d.matches);
    payloads<<<kResident, kBlock>>>(d.table, d.device_key, d.count, d.payload);
}
//: end

// --- sums by key

//: variant sums_direct
__global__ void add_direct(const int* __restrict__ key, const unsigned* __restrict__ value,
                           unsigned* sum, size_t count) {
    for (size_t i = blockIdx.x * size_t{kBlock} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * kBlock) {
        atomicAdd(&sum[key[i]], value[i]);
    }
}

void sums_direct(const Data& d) {
    add_direct<<<kResident, kBlock>>>(d.key, d.value, d.sum, d.count);
}
//: end

//: variant sums_in_blocks
// The first key to come to one of 256 places of the block is summed there, others in global memory.
__global__ void add_in_blocks(const int* __restrict__ key, const unsigned* __restrict__ value,
                              unsigned* sum, size_t count) {
    __shared__ int owner[256];
    __shared__ unsigned part[256];
    owner[threadIdx.x] = -1;
    part[threadIdx.x] = 0;
    __syncthreads();
    for (size_t i = blockIdx.x * size_t{kBlock} + threadIdx.x; i < count;
         i += size_t{gridDim.x} * kBlock) {
        const int k = key[i], place = slot_of(k) % 256;
        int holder = owner[place];
        if (holder < 0) {
            const int was = atomicCAS(&owner[place], -1, k);
            holder = was < 0 ? k : was;
        }
        if (holder == k) {
            atomicAdd(&part[place], value[i]);
        } else {
            atomicAdd(&sum[k], value[i]);
        }
    }
    __syncthreads();
    if (owner[threadIdx.x] >= 0) atomicAdd(&sum[owner[threadIdx.x]], part[threadIdx.x]);
}

void sums_in_blocks(const Data& d) {
    add_in_blocks<<<kResident, kBlock>>>(d.key, d.value, d.sum, d.count);
}
//: end

// --- payloads from a table that later launches may change

//: variant newest
__device__ inline int find_newest(const int2* table, int key) {
    for (unsigned slot = slot_of(key);; slot = (slot + 1) & (kSlots - 1)) {
        const int2 entry = __ldcg(&table[slot]);
        if (entry.x == key) return entry.y;
        if (entry.x < 0) return -1;
    }
}

__global__ void payloads_newest(const int2* table, const int* __restrict__ key, size_t count,
                                int* __restrict__ payload) {
    const size_t i = blockIdx.x * size_t{kBlock} + threadIdx.x;
    if (i < count) payload[i] = find_newest(table, key[i]);
}

void newest(const Data& d) {
    payloads_newest<<<(d.count + kBlock - 1) / kBlock, kBlock>>>(d.table, d.key, d.count, d.payload);
}
//: end

//: variant cached
__device__ inline int find_cached(const int2* table, int key) {
    for (unsigned slot = slot_of(key);; slot = (slot + 1) & (kSlots - 1)) {
        const int2 entry = __ldg(&table[slot]);
        if (entry.x == key) return entry.y;
        if (entry.x < 0) return -1;
    }
}

__global__ void payloads_cached(const int2* table, const int* __restrict__ key, size_t count,
                                int* __restrict__ payload) {
    const size_t i = blockIdx.x * size_t{kBlock} + threadIdx.x;
    if (i < count) payload[i] = find_cached(table, key[i]);
}

void cached(const Data& d) {
    payloads_cached<<<(d.count + kBlock - 1) / kBlock, kBlock>>>(d.table, d.key, d.count, d.payload);
}
//: end

// Row r of the table has a key that no other row has; rows from kRows on are in no table.
constexpr int kRows = 1 << 19;

__host__ __device__ inline int key_of(unsigned row) { return int((row * 2654435761u) & 0x7fffffffu); }

__global__ void build(int2* table, int rows) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const int key = key_of(row);
    unsigned slot = slot_of(key);
    while (atomicCAS(&table[slot].x, -1, key) != -1) slot = (slot + 1) & (kSlots - 1);
    table[slot].y = row;
}

const int2* table_for(book::Problem& p) {
    int2* table = p.input<int2>(kSlots, [=] __device__(size_t) { return int2{-1, -1}; });
    build<<<kRows / 256, 256>>>(table, kRows);
    return table;
}

// The row that a probe refers to: known without a table.
struct Probes {
    uint64_t seed;
    double match, hot;
    __host__ __device__ unsigned row(size_t i) const {
        if (book::uniform01(seed, 11, i) < hot) return 12345;
        const unsigned row = unsigned(kRows * book::uniform01(seed, 12, i));
        return book::uniform01(seed, 13, i) < match ? row : row + kRows;
    }
};

void accounts_problem(book::Book& book, const char* name, double match,
                      const std::vector<std::string>& variants) {
    book.problem(name, [=](book::Problem& p) {
        Data d{};
        d.count = 8 << 20;
        d.table = table_for(p);
        const Probes probes{p.seed(), match, 0};
        d.key = p.input<int>(d.count, [=] __device__(size_t i) { return key_of(probes.row(i)); });
        d.amount = p.uniform<float>(d.count, 100, 1000);
        d.rate = p.uniform<float>(kRows, 0.001, 0.01);
        d.balance = p.output<float>(d.count);
        p.needs({.dram_bytes = 8.0 * d.count + 4.0 * match * d.count + 8.0 * kSlots + 4.0 * kRows,
                 .fp32_flop = 4.0 * kSteps * match * d.count});
        p.check<float>(d.balance, d.count, {2e-4}, [=](float* expected) {
            book::book_fill<<<1056, 256>>>(expected, d.count, [=] __device__(size_t i) {
                const unsigned row = probes.row(i);
                if (row >= kRows) return 0.f;
                double amount = d.amount[i], rate = d.rate[row];
                for (int step = 0; step < 160; ++step, rate *= 0.995) amount += amount * rate - 0.01;
                return float(amount);
            });
        });
        for (const std::string& variant : variants) {
            if (variant == "direct_terms") p.variant(variant, [=] { direct_terms(d); });
            if (variant == "direct") p.variant(variant, [=] { direct(d); });
            if (variant == "listed_terms") p.variant(variant, [=] { listed_terms(d); });
            if (variant == "listed") p.variant(variant, [=] { listed(d); });
        }
    });
}

void host_problem(book::Book& book) {
    book.problem("host_keys", [=](book::Problem& p) {
        Data d{};
        d.count = 15000000;
        d.table = table_for(p);
        const Probes probes{p.seed(), 0.5, 0};
        const int* keys = p.input<int>(d.count, [=] __device__(size_t i) {
            return key_of(probes.row(i));
        });
        int* host = p.host_mapped<int>(d.count);
        BOOK_CHECK(cudaMemcpy(host, keys, sizeof(int) * d.count, cudaMemcpyDeviceToHost));
        d.host_key = host;
        d.device_key = p.output<int>(d.count);
        d.payload = p.output<int>(d.count);
        d.matches = p.zeroed<unsigned>(1);
        p.needs({.dram_bytes = 4.0 * d.count + 8.0 * kSlots, .link_bytes = 4.0 * d.count});
        p.check<int>(d.payload, d.count, {0}, [=](int* expected) {
            book::book_fill<<<1056, 256>>>(expected, d.count, [=] __device__(size_t i) {
                const unsigned row = probes.row(i);
                return row < kRows ? int(row) : -1;
            });
        });
        p.check<unsigned>(d.matches, 1, {0}, [=](unsigned* expected) {
            unsigned* sink = nullptr;
            BOOK_CHECK(cudaMalloc(&sink, sizeof(unsigned) * d.count));
            book::book_fill<<<1056, 256>>>(sink, d.count, [=] __device__(size_t i) {
                const unsigned is = probes.row(i) < kRows;
                if (is) atomicAdd(expected, 1u);
                return is;
            });
            BOOK_CHECK(cudaDeviceSynchronize());
            BOOK_CHECK(cudaFree(sink));
        });
        p.variant("keys_in_place", [=] { keys_in_place(d); });
        p.variant("keys_copied", [=] { keys_copied(d); });
    });
}

void sums_problem(book::Book& book) {
    book.problem("default_group", [=](book::Problem& p) {
        Data d{};
        d.count = 8 << 20;
        constexpr int kGroups = 1 << 20;
        const uint64_t seed = p.seed();
        d.key = p.input<int>(d.count, [=] __device__(size_t i) {
            if (book::uniform01(seed, 14, i) < 0.25) return 777;
            return int(kGroups * book::uniform01(seed, 15, i));
        });
        d.value = p.input<unsigned>(d.count, [=] __device__(size_t i) {
            return unsigned(100 * book::uniform01(seed, 16, i));
        });
        d.sum = p.zeroed<unsigned>(kGroups);
        p.needs({.dram_bytes = 8.0 * d.count + 8.0 * kGroups, .int_op = double(d.count)});
        p.check<unsigned>(d.sum, kGroups, {0}, [=](unsigned* expected) {
            unsigned* sink = nullptr;
            BOOK_CHECK(cudaMalloc(&sink, sizeof(unsigned) * d.count));
            book::book_fill<<<1056, 256>>>(sink, d.count, [=] __device__(size_t i) {
                return atomicAdd(&expected[d.key[i]], d.value[i]);
            });
            BOOK_CHECK(cudaDeviceSynchronize());
            BOOK_CHECK(cudaFree(sink));
        });
        p.variant("sums_direct", [=] { sums_direct(d); });
        p.variant("sums_in_blocks", [=] { sums_in_blocks(d); });
    });
}

void hot_problem(book::Book& book) {
    book.problem("popular_key", [=](book::Problem& p) {
        Data d{};
        d.count = 12 << 20;
        d.table = table_for(p);
        const Probes probes{p.seed(), 1, 0.8};
        d.key = p.input<int>(d.count, [=] __device__(size_t i) { return key_of(probes.row(i)); });
        d.payload = p.output<int>(d.count);
        p.needs({.dram_bytes = 8.0 * d.count + 8.0 * kSlots});
        p.check<int>(d.payload, d.count, {0}, [=](int* expected) {
            book::book_fill<<<1056, 256>>>(expected, d.count, [=] __device__(size_t i) {
                return int(probes.row(i));
            });
        });
        p.variant("newest", [=] { newest(d); });
        p.variant("cached", [=] { cached(d); });
    });
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    accounts_problem(book, "fifth_match", 0.2, {"direct_terms", "direct", "listed_terms", "listed"});
    accounts_problem(book, "third_match", 0.35, {"direct", "listed"});
    accounts_problem(book, "few_match", 0.0005, {"direct", "listed"});
    host_problem(book);
    sums_problem(book);
    hot_problem(book);
    return book.finish();
}
