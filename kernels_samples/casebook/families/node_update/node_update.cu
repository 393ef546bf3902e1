// Updates of the nodes of a mesh: layers below a node, properties found through the mesh, and lists
// of contacts.
#include "../../harness/book.h"

struct Columns {
    int nodes, levels;
    const float* surface;
    const float* rate;
    const float* source;
    float* level;
};

struct Mesh {
    int nodes;  // a multiple of 1024
    const int* element;       // of a node
    const int* patch;         // of an element
    const int* zone;          // of a patch
    const float* conductivity;  // of a zone
    const float* temperature;
    float* flux;
};

struct Contacts {
    int nodes;
    const int* head;
    const int2* link;  // next contact or -1, its pair
    const float* force;  // of a pair
    float* load;
};

struct Records {
    int nodes;  // even
    const int* head;
    const int4* record;  // next record or -1, three counts
    int4* sums;
};

//: variant by_level
// Water that settles from layer to layer: layer k of all nodes is stored before layer k + 1.
__global__ void settle(const float* surface, const float* rate, const float* source, float* level,
                       int nodes, int levels) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= nodes) return;
    float value = surface[i];
    for (int k = 0; k < levels; ++k) {
        const size_t at = size_t(k) * nodes + i;
        value = value * rate[at] + source[at];
        level[at] = value;
    }
}

void by_level(const Columns& c) {
    settle<<<(c.nodes + 127) / 128, 128>>>(c.surface, c.rate, c.source, c.level, c.nodes, c.levels);
}
//: end

//: variant next_level_early
__global__ void settle_early(const float* surface, const float* rate, const float* source,
                             float* level, int nodes, int levels) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= nodes) return;
    float value = surface[i];
    float r = rate[i], s = source[i];
    for (int k = 0; k < levels; ++k) {
        const size_t at = size_t(k) * nodes + i;
        const size_t next = k + 1 < levels ? at + nodes : at;
        const float next_r = rate[next], next_s = source[next];
        value = value * r + s;
        level[at] = value;
        r = next_r, s = next_s;
    }
}

void next_level_early(const Columns& c) {
    settle_early<<<(c.nodes + 127) / 128, 128>>>(c.surface, c.rate, c.source, c.level, c.nodes,
                                                 c.levels);
}
//: end

//: variant eight_levels
// The number of levels is a multiple of 8.
__global__ void settle_eight(const float* __restrict__ surface, const float* __restrict__ rate,
                             const float* __restrict__ source, float* __restrict__ level,
                             int nodes, int levels) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= nodes) return;
    float value = surface[i];
    for (int k = 0; k < levels; k += 8) {
        const size_t at = size_t(k) * nodes + i;
        float r[8], s[8];
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            r[j] = rate[at + size_t(j) * nodes];
            s[j] = source[at + size_t(j) * nodes];
        }
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            value = value * r[j] + s[j];
            level[at + size_t(j) * nodes] = value;
        }
    }
}

void eight_levels(const Columns& c) {
    settle_eight<<<(c.nodes + 127) / 128, 128>>>(c.surface, c.rate, c.source, c.level, c.nodes,
                                                 c.levels);
}
//: end

//: variant node_per_thread
__global__ void node_flux(const int* __restrict__ element, const int* __restrict__ patch,
                          const int* __restrict__ zone, const float* __restrict__ conductivity,
                          const float* __restrict__ temperature, float* __restrict__ flux) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    flux[i] = conductivity[zone[patch[element[i]]]] * temperature[i];
}

void node_per_thread(const Mesh& m) {
    node_flux<<<m.nodes / 256, 256>>>(m.element, m.patch, m.zone, m.conductivity, m.temperature,
                                      m.flux);
}
//: end

//: variant four_nodes_per_thread
__global__ void node_flux_of_four(const int* __restrict__ element, const int* __restrict__ patch,
                                  const int* __restrict__ zone,
                                  const float* __restrict__ conductivity,
                                  const float* __restrict__ temperature,
                                  float* __restrict__ flux) {
    const int i = blockIdx.x * 1024 + threadIdx.x;
    int at[4];
    float heat[4];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
        at[n] = element[i + 256 * n];
        heat[n] = temperature[i + 256 * n];
    }
#pragma unroll
    for (int n = 0; n < 4; ++n) at[n] = patch[at[n]];
#pragma unroll
    for (int n = 0; n < 4; ++n) at[n] = zone[at[n]];
#pragma unroll
    for (int n = 0; n < 4; ++n) heat[n] *= conductivity[at[n]];
#pragma unroll
    for (int n = 0; n < 4; ++n) flux[i + 256 * n] = heat[n];
}

void four_nodes_per_thread(const Mesh& m) {
    node_flux_of_four<<<m.nodes / 1024, 256>>>(m.element, m.patch, m.zone, m.conductivity,
                                               m.temperature, m.flux);
}
//: end

//: variant contact_by_contact
__global__ void add_contacts(const int* __restrict__ head, const int2* __restrict__ link,
                             const float* __restrict__ force, float* __restrict__ load, int nodes) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= nodes) return;
    float sum = 0;
    int contact = head[i];
    while (contact >= 0) {
        const int2 l = link[contact];
        sum += force[l.y];
        contact = l.x;
    }
    load[i] = sum;
}

void contact_by_contact(const Contacts& c) {
    add_contacts<<<(c.nodes + 127) / 128, 128>>>(c.head, c.link, c.force, c.load, c.nodes);
}
//: end

//: variant next_contact_early
__global__ void add_contacts_early(const int* __restrict__ head, const int2* __restrict__ link,
                                   const float* __restrict__ force, float* __restrict__ load,
                                   int nodes) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= nodes) return;
    float sum = 0;
    int contact = head[i];
    if (contact >= 0) {
        int2 l = link[contact];
        while (l.x >= 0) {
            const float f = force[l.y];
            l = link[l.x];
            sum += f;
        }
        sum += force[l.y];
    }
    load[i] = sum;
}

void next_contact_early(const Contacts& c) {
    add_contacts_early<<<(c.nodes + 127) / 128, 128>>>(c.head, c.link, c.force, c.load, c.nodes);
}
//: end

//: variant list_per_thread
__global__ void sum_list(const int* __restrict__ head, const int4* __restrict__ record,
                         int4* __restrict__ sums, int nodes) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= nodes) return;
    int4 sum = make_int4(0, 0, 0, 0);
    for (int at = head[i]; at >= 0;) {
        const int4 r = record[at];
        sum.x += r.y, sum.y += r.z, sum.z += r.w, ++sum.w;
        at = r.x;
    }
    sums[i] = sum;
}

void list_per_thread(const Records& r) {
    sum_list<<<(r.nodes + 255) / 256, 256>>>(r.head, r.record, r.sums, r.nodes);
}
//: end

//: variant two_lists_per_thread
__global__ void sum_two_lists(const int* __restrict__ head, const int4* __restrict__ record,
                              int4* __restrict__ sums, int half) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= half) return;
    int4 sum = make_int4(0, 0, 0, 0), other = sum;
    int at = head[i], to = head[i + half];
    while (at >= 0 || to >= 0) {
        int4 r = make_int4(-1, 0, 0, 0), q = r;
        if (at >= 0) r = record[at], ++sum.w;
        if (to >= 0) q = record[to], ++other.w;
        sum.x += r.y, sum.y += r.z, sum.z += r.w;
        other.x += q.y, other.y += q.z, other.z += q.w;
        at = r.x, to = q.x;
    }
    sums[i] = sum;
    sums[i + half] = other;
}

void two_lists_per_thread(const Records& r) {
    const int half = r.nodes / 2;
    sum_two_lists<<<(half + 255) / 256, 256>>>(r.head, r.record, r.sums, half);
}
//: end

// In double, layer by layer.
__global__ void reference_settle(const float* surface, const float* rate, const float* source,
                                 float* expected, int nodes, int levels) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= nodes) return;
    double value = surface[i];
    for (int k = 0; k < levels; ++k) {
        const size_t at = size_t(k) * nodes + i;
        value = double(source[at]) + double(rate[at]) * value;
        expected[at] = float(value);
    }
}

__global__ void reference_flux(Mesh m, float* expected) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < m.nodes; i += gridDim.x * blockDim.x) {
        const int e = m.element[i];
        const int z = m.zone[m.patch[e]];
        expected[i] = float(double(m.temperature[i]) * double(m.conductivity[z]));
    }
}

__global__ void reference_load(Contacts c, float* expected) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= c.nodes) return;
    double sum = 0;
    for (int p = c.head[i]; p != -1; p = c.link[p].x) sum += double(c.force[c.link[p].y]);
    expected[i] = float(sum);
}

__global__ void reference_sums(Records r, int* expected) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= r.nodes) return;
    int sums[4] = {0, 0, 0, 0};
    for (int p = r.head[i]; p != -1; p = r.record[p].x) {
        sums[0] += r.record[p].y;
        sums[1] += r.record[p].z;
        sums[2] += r.record[p].w;
        sums[3] += 1;
    }
    for (int k = 0; k < 4; ++k) expected[4 * i + k] = sums[k];
}

Columns set_up_columns(book::Problem& p, int nodes, int levels) {
    const size_t count = size_t(nodes) * levels;
    Columns c{nodes, levels};
    c.surface = p.uniform<float>(nodes, 0, 10);
    c.rate = p.uniform<float>(count, 0.1, 0.9);
    c.source = p.uniform<float>(count, 0, 1);
    c.level = p.output<float>(count);
    p.needs({.dram_bytes = 12.0 * count + 4.0 * nodes, .fp32_flop = 2.0 * count});
    p.check<float>(c.level, count, {1e-5, 1e-6}, [=](float* expected) {
        reference_settle<<<(nodes + 63) / 64, 64>>>(c.surface, c.rate, c.source, expected, nodes,
                                                    levels);
    });
    return c;
}

// Where the entry of a node in round `hop` of the lists is: groups of 32 nodes stay together.
__host__ __device__ inline int place(uint64_t seed, int stream, int hop, int node, int nodes) {
    const int groups = nodes / 32;
    const int shift = int(book::mixed(seed * 1000003 + stream * 4099 + hop) % groups);
    return hop * nodes + (node / 32 + shift) % groups * 32 + node % 32;
}

// The node whose entry is at `at`.
__host__ __device__ inline int node_at(uint64_t seed, int stream, int at, int nodes) {
    const int groups = nodes / 32, hop = at / nodes, inside = at % nodes;
    const int shift = int(book::mixed(seed * 1000003 + stream * 4099 + hop) % groups);
    return (inside / 32 + groups - shift) % groups * 32 + inside % 32;
}

int main(int argc, char** argv) {
    book::Book book(argc, argv);
    book.problem("deep_columns", [](book::Problem& p) {
        const auto c = set_up_columns(p, 132 * 512, 192);
        p.variant("by_level", [=] { by_level(c); });
        p.variant("next_level_early", [=] { next_level_early(c); });
        p.variant("eight_levels", [=] { eight_levels(c); });
    });
    book.problem("many_columns", [](book::Problem& p) {
        const auto c = set_up_columns(p, 132 * 1024, 96);
        p.variant("by_level", [=] { by_level(c); });
        p.variant("eight_levels", [=] { eight_levels(c); });
    });
    book.problem("mesh", [](book::Problem& p) {
        Mesh m{12 << 20};
        const uint64_t seed = p.seed();
        const int nodes = m.nodes;
        const int a = book::mixed(seed) & 7, b = book::mixed(seed + 50) & 7, c = book::mixed(seed + 90) & 7;
        m.element = p.input<int>(nodes, [=] __device__(size_t i) { return int(i / 4) ^ a; });
        m.patch = p.input<int>(nodes / 4, [=] __device__(size_t i) { return int(i / 4) ^ b; });
        m.zone = p.input<int>(nodes / 16, [=] __device__(size_t i) { return int(i / 4) ^ c; });
        m.conductivity = p.uniform<float>(nodes / 64, 0.5, 2);
        m.temperature = p.uniform<float>(nodes, 250, 350);
        m.flux = p.output<float>(nodes);
        p.needs({.dram_bytes = 4.0 * nodes * (3 + 0.25 + 0.0625 + 0.015625), .fp32_flop = 1.0 * nodes});
        p.check<float>(m.flux, nodes, {1e-6}, [=](float* expected) {
            reference_flux<<<1056, 256>>>(m, expected);
        });
        p.variant("node_per_thread", [=] { node_per_thread(m); });
        p.variant("four_nodes_per_thread", [=] { four_nodes_per_thread(m); });
    });
    book.problem("contacts", [](book::Problem& p) {
        const int nodes = 132 * 1024, hops = 64;
        const size_t count = size_t(nodes) * hops;
        const uint64_t seed = p.seed();
        Contacts c{nodes};
        c.head = p.input<int>(nodes, [=] __device__(size_t i) { return place(seed, 0, 0, int(i), nodes); });
        c.link = p.input<int2>(count, [=] __device__(size_t at) {
            const int node = node_at(seed, 0, int(at), nodes), hop = int(at) / nodes;
            const int next = hop + 1 < hops ? place(seed, 0, hop + 1, node, nodes) : -1;
            return make_int2(next, place(seed, 1, hop, node, nodes));
        });
        c.force = p.uniform<float>(count, 0, 1);
        c.load = p.output<float>(nodes);
        p.needs({.dram_bytes = 12.0 * count + 8.0 * nodes, .fp32_flop = 1.0 * count});
        p.check<float>(c.load, nodes, {1e-5}, [=](float* expected) {
            reference_load<<<(nodes + 63) / 64, 64>>>(c, expected);
        });
        p.variant("contact_by_contact", [=] { contact_by_contact(c); });
        p.variant("next_contact_early", [=] { next_contact_early(c); });
    });
    book.problem("records", [](book::Problem& p) {
        const int nodes = 132 * 2048, hops = 32;
        const size_t count = size_t(nodes) * hops;
        const uint64_t seed = p.seed();
        Records r{nodes};
        r.head = p.input<int>(nodes, [=] __device__(size_t i) { return place(seed, 2, 0, int(i), nodes); });
        r.record = p.input<int4>(count, [=] __device__(size_t at) {
            const int node = node_at(seed, 2, int(at), nodes), hop = int(at) / nodes;
            const int next = hop + 1 < hops ? place(seed, 2, hop + 1, node, nodes) : -1;
            const uint64_t bits = book::mixed(seed ^ at << 8);
            return make_int4(next, int(bits & 4095), int(bits >> 12 & 4095), int(bits >> 24 & 4095));
        });
        r.sums = p.output<int4>(nodes);
        p.needs({.dram_bytes = 16.0 * count + 20.0 * nodes, .int_op = 4.0 * count});
        p.check<int>(reinterpret_cast<const int*>(r.sums), size_t(nodes) * 4, {0}, [=](int* expected) {
            reference_sums<<<(nodes + 63) / 64, 64>>>(r, expected);
        });
        p.variant("list_per_thread", [=] { list_per_thread(r); });
        p.variant("two_lists_per_thread", [=] { two_lists_per_thread(r); });
    });
    return book.finish();
}
