// Facts that the input data decide, computed on the host from the programs' own generators. Needs
// no GPU. One JSON object per program on standard output:
//   for p in topics photoacoustic impact reactive; do
//       nvcc -O3 -arch=sm_90 -DPROGRAM_$p -o truth_$p truth.cu && ./truth_$p
//   done
// The figures are in answers.json.

#include <set>

#define main program_main
#if defined(PROGRAM_topics)
#include "topics.cu"
#elif defined(PROGRAM_photoacoustic)
#include "photoacoustic.cu"
#elif defined(PROGRAM_impact)
#include "impact.cu"
#elif defined(PROGRAM_reactive)
#include "reactive.cu"
#endif
#undef main

struct Range {
    double least = 1e300, sum = 0.0, most = -1e300;
    long count = 0;
    void add(double value) {
        least = std::fmin(least, value), most = std::fmax(most, value);
        sum += value;
        ++count;
    }
    void print(const char* name, const char* end = ",") const {
        std::printf("\"%s\": {\"least\": %.10g, \"mean\": %.10g, \"most\": %.10g, \"sum\": %.15g, \"count\": %ld}%s\n",
                    name, least, sum / count, most, sum, count, end);
    }
};

#if defined(PROGRAM_topics)

static void entries_of(const Corpus& corpus, int first, int documents, const char* name, const char* end) {
    Range length, visits;
    std::set<int> words;
    for (int d = first; d < first + documents; ++d) {
        int entries = corpus.start[d + 1] - corpus.start[d];
        length.add(entries);
        for (int warp = 0; warp < kDocWarps; ++warp) visits.add((entries - warp + kDocWarps - 1) / kDocWarps);
        for (int n = corpus.start[d]; n < corpus.start[d + 1]; ++n) words.insert(corpus.entries[n].x);
    }
    std::printf("\"%s\": {\n", name);
    length.print("entries_per_document");
    visits.print("entries_per_warp_and_iteration");
    std::printf("\"distinct_words\": %zu}%s\n", words.size(), end);
}

int main() {
    Corpus train = make_corpus(kBatchDocs * kBatches, 1);
    Corpus held_out = make_corpus(kHeldOutDocs, 50000000);
    std::printf("{");
    entries_of(train, 0, kBatchDocs, "batch_0", ",");
    entries_of(train, 0, kBatchDocs * kBatches, "all_batches", ",");
    Range batch;
    for (int b = 0; b < kBatches; ++b) {
        batch.add(train.start[(b + 1) * kBatchDocs] - train.start[b * kBatchDocs]);
    }
    batch.print("entries_per_batch");
    std::printf("\"entries_of_each_batch\": [");
    for (int b = 0; b < kBatches; ++b) {
        int entries = train.start[(b + 1) * kBatchDocs] - train.start[b * kBatchDocs];
        std::printf("%s%d", b ? ", " : "", entries);
    }
    std::printf("],\n");
    entries_of(held_out, 0, kHeldOutDocs, "held_out", "");
    std::printf("}\n");
}

#elif defined(PROGRAM_photoacoustic)

// Share of the samples that a slice reads, and 32-byte sectors per warp of back_project's loads.
int main() {
    Range share, sectors_low, sectors_high;
    std::vector<char> read(kSamples);
    for (int slice = 0; slice < kSlices; slice += 5) {
        double z = (slice - 0.5 * (kSlices - 1)) * kVoxel;
        for (int s = 0; s < kSensors; s += 511) {
            double sz = -kBelt * (s + 0.5) / kSensors, ring = std::sqrt(1.0 - sz * sz), angle = s * 2.39996323;
            double sx = kRadius * ring * std::cos(angle), sy = kRadius * ring * std::sin(angle);
            std::fill(read.begin(), read.end(), 0);
            for (int line = 0; line < kHeight; line += 2) {
                for (int first = 0; first < kWidth; first += 16) {
                    std::set<int> low, high;
                    for (int lane = 0; lane < 32; ++lane) {
                        double dx = sx - (first + lane % 16 - 0.5 * (kWidth - 1)) * kVoxel;
                        double dy = sy - (line + lane / 16 - 0.5 * (kHeight - 1)) * kVoxel;
                        double dz = kRadius * sz - z;
                        double place = std::sqrt(dx * dx + dy * dy + dz * dz) * kInverseStep - kFirstSample;
                        int sample = static_cast<int>(place);
                        read[sample] = read[sample + 1] = 1;
                        low.insert(sample / 8);
                        high.insert((sample + 1) / 8);
                    }
                    sectors_low.add(low.size());
                    sectors_high.add(high.size());
                }
            }
            share.add(std::count(read.begin(), read.end(), 1) / static_cast<double>(kSamples));
        }
    }
    std::printf("{");
    share.print("share_of_a_record_read_by_a_slice");
    sectors_low.print("sectors_per_warp_low");
    sectors_high.print("sectors_per_warp_high", "");
    std::printf("}\n");
}

#elif defined(PROGRAM_impact)

int main() {
    Mesh mesh = make_mesh();
    Range sectors, upper;
    for (int c = 0; c < 8; ++c) {
        for (int first = 0; first < kElements; first += 32) {
            std::set<int> touched;
            for (int e = first; e < first + 32; ++e) {
                touched.insert(mesh.corners[static_cast<size_t>(c) * kElements + e] / 4);
            }
            sectors.add(touched.size());
        }
    }
    for (size_t first = 0; first < mesh.upper.size(); first += 32) {
        std::set<int> touched;
        for (size_t i = first; i < std::min(first + 32, mesh.upper.size()); ++i) touched.insert(mesh.upper[i] / 4);
        upper.add(touched.size());
    }
    std::printf("{");
    sectors.print("sectors_per_warp_of_a_gather");
    upper.print("sectors_per_warp_of_the_upper_face", "");
    std::printf("}\n");
}

#elif defined(PROGRAM_reactive)

// The whole run on the host.
int main() {
    Start start = make_start();
    std::vector<double> temperature = start.temperature, species = start.species;
    std::vector<double> rates(kReactions * kBins), rhs(kCells), heat(kCells), moved(species.size());
    std::printf("{\"steps\": [");
    for (int step = 0; step < kSteps; ++step) {
        Range visits, warp_visits;
        for (int i = 0; i < kCells; ++i) visits.add(substeps(temperature[i]));
        for (int i = 0; i < kCells; i += 32) {
            int most = 0;
            for (int lane = 0; lane < 32; ++lane) most = std::max(most, substeps(temperature[i + lane]));
            warp_visits.add(most);
        }
        for (int entry = 0; entry < kReactions * kBins; ++entry) {
            double barrier = start.barriers[entry / kBins] * (1.0 + 0.01 * step);
            double inverse_t = 1000.0 / (kColdest + kBinWidth * (entry % kBins)), sum = 0.0;
            // A sixteenth of the points is enough for a smooth integrand.
            const int points = kPoints / 16;
            for (int n = 0; n < points; ++n) {
                sum += integrand(barrier + (n + 0.5) * (20.0 / points), barrier, inverse_t) * 20.0 / points;
            }
            rates[entry] = sum;
        }
        std::vector<float2> flow(kCells, make_float2(0.0f, 0.0f));
        std::vector<float4> matrices = mode_matrices(step);
        for (int m = 0; m < kModes; ++m) {
            for (int i = 0; i < kCells; ++i) {
                float2 mode = start.modes[static_cast<size_t>(m) * kCells + i];
                flow[i].x += matrices[m].x * mode.x + matrices[m].y * mode.y;
                flow[i].y += matrices[m].z * mode.x + matrices[m].w * mode.y;
            }
        }
        for (int i = 0; i < kCells; ++i) {
            double amounts[kSpecies];
            for (int s = 0; s < kSpecies; ++s) amounts[s] = species[static_cast<size_t>(s) * kCells + i];
            heat[i] = host_react(rates, start.barriers, temperature[i], amounts);
            for (int s = 0; s < kSpecies; ++s) species[static_cast<size_t>(s) * kCells + i] = amounts[s];
        }
        for (int s = 0; s < kSpecies; ++s) {
            size_t at = static_cast<size_t>(s) * kCells;
            for (int i = 0; i < kCells; ++i) moved[at + i] = host_transport(&species[at], flow, i);
        }
        for (int i = 0; i < kCells; ++i) rhs[i] = host_transport(temperature.data(), flow, i) + heat[i];
        std::swap(species, moved);
        std::vector<double> x(kCells, 0.0), r = rhs, p = rhs, q(kCells);
        double residual = 0.0;
        for (double value : r) residual += value * value;
        double first = residual;
        int iteration = 0, reached = 0;
        while (iteration < kMaxIterations) {
            double pq = 0.0, next = 0.0;
            for (int i = 0; i < kCells; ++i) pq += p[i] * (q[i] = operator_at(p.data(), start.conduct.data(), i));
            double alpha = residual / pq;
            for (int i = 0; i < kCells; ++i) {
                x[i] += alpha * p[i];
                r[i] -= alpha * q[i];
                next += r[i] * r[i];
            }
            for (int i = 0; i < kCells; ++i) p[i] = r[i] + next / residual * p[i];
            residual = next;
            if (reached == 0 && residual < kTolerance * kTolerance * first) reached = iteration + 1;
            if (++iteration % kCheckEvery == 0 && residual < kTolerance * kTolerance * first) break;
        }
        temperature = x;
        std::printf("%s{\"iterations\": %d, \"tolerance_reached_after\": %d, \"relative_residual\": %.3e,\n",
                    step ? "," : "", iteration, reached, std::sqrt(residual / first));
        visits.print("substeps_per_cell");
        warp_visits.print("substeps_per_warp");
        Range coldest;
        for (double t : temperature) coldest.add(t);
        coldest.print("temperature_after", "}");
    }
    std::printf("]}\n");
}

#endif
