#include "problem.h"

constexpr int kThreads = 128;

constexpr float kFreezing = 273.15f;
constexpr float kVeryCold = 236.0f;        // below it, cloud drops freeze without a nucleus
constexpr float kHeatOfVapour = 2.49f;     // K per g/kg condensed
constexpr float kHeatOfFusion = 0.33f;     // K per g/kg frozen
constexpr float kCloudOpacity = 0.05f;     // per g/kg and air mass
constexpr float kHeatOfSun = 0.01f;        // K per unit of absorbed light
constexpr float kDropThreshold = 0.2f;     // g/kg of cloud that form no drops
constexpr float kDropRate = 0.1f;          // of the cloud above the threshold
constexpr float kSweepOut = 0.3f;          // of the cloud, per unit of growing drops
constexpr float kBreakUp = 0.08f;          // of the mass of a class, at class kClasses
constexpr float kFall = 0.02f;             // of the mass of a class, per class
constexpr float kEvaporation = 0.05f;      // of the rain, in dry air

struct Cell {
    float temperature;
    float pressure;
    float vapour;
    float cloud;
};

// Mass of falling drops in each class of a thread's column.
struct Spectrum {
    float* mass;  // [class][thread of the block]

    __device__ explicit Spectrum(float* of_thread) : mass(of_thread) {
        for (int k = 0; k < kClasses; ++k) mass[k * kThreads] = 0;
    }
    __device__ float& operator[](int k) { return mass[k * kThreads]; }
};

// What the drops of a cell do: where their spectrum peaks and how far growth carries them.
struct Regime {
    int mode;
    float beyond;  // the mode's distance to the mean class
    int hop;       // classes that a growing drop passes
    float vigour;  // share of the drops that grow

    __device__ Regime(float mean_class, float updraught)
        : mode(static_cast<int>(mean_class)),
          beyond(mean_class - static_cast<float>(mode)),
          hop(1 + static_cast<int>(updraught)),
          vigour(0.1f + 0.1f * updraught) {}
};

// Air masses that sunlight crosses, at the top 1 (Kasten and Young).
__device__ float slant_of(float zenith) {
    const float cosine = cospif(zenith / 180);
    return 1.0f / (cosine + 0.50572f * powf(96.07995f - zenith, -1.6364f));
}

// Vapour that the air can hold.
__device__ float saturation(const Cell& cell) {
    const float celsius = cell.temperature - kFreezing;
    const float push = 6.112f * expf(17.67f * celsius / (celsius + 243.5f));
    return 622.0f * push / (cell.pressure - push);
}

__device__ float radiate(Cell& cell, float light, float slant) {
    const float absorbed = light * (1 - expf(-kCloudOpacity * cell.cloud * slant));
    cell.temperature += kHeatOfSun * absorbed;
    return light - absorbed;
}

// Vapour in excess becomes cloud; cloud in dry air becomes vapour.
__device__ float condense(Cell& cell) {
    const float holds = saturation(cell);
    const float warmth = cell.temperature - kFreezing + 243.5f;
    const float slope = holds * 17.67f * 243.5f / (warmth * warmth);
    const float excess = (cell.vapour - holds) / (1 + kHeatOfVapour * slope);
    const float condensed = fmaxf(excess, -cell.cloud);
    cell.vapour -= condensed;
    cell.cloud += condensed;
    cell.temperature += kHeatOfVapour * condensed;
    return holds;
}

// Dense cloud forms drops, shared between the two classes next to the mean.
__device__ void form_drops(Cell& cell, Spectrum& drops, const Regime& regime) {
    const float formed = kDropRate * fmaxf(cell.cloud - kDropThreshold, 0.0f);
    cell.cloud -= formed;
    drops[regime.mode] += formed * (1 - regime.beyond);
    drops[regime.mode + 1] += formed * regime.beyond;
}

// Drops near the mode collect cloud and pass to heavier classes.
__device__ void grow_drops(Cell& cell, Spectrum& drops, const Regime& regime) {
    float growing = 0;
    for (int offset = kReach; offset >= -kReach; --offset) {
        const int k = regime.mode + offset;
        const float moved = regime.vigour * drops[k];
        drops[k] -= moved;
        drops[k + regime.hop] += moved;
        growing += moved;
    }
    const float collected = cell.cloud * (1 - expf(-kSweepOut * growing));
    cell.cloud -= collected;
    drops[regime.mode] += collected;
}

// Heavy drops shed a part of their mass to lighter classes.
__device__ void break_drops(Spectrum& drops, const Regime& regime) {
    for (int offset = -kReach; offset <= kReach; ++offset) {
        const int k = regime.mode + offset;
        const float shed = kBreakUp * k / kClasses * drops[k];
        drops[k] -= shed;
        drops[max(k - 2 * regime.hop, 0)] += shed;
    }
}

// Each class loses mass to the ground, the heavier the faster.
__device__ float fall_out(Spectrum& drops, const Regime& regime) {
    float rain = 0;
    for (int offset = -kReach; offset <= kReach; ++offset) {
        const int k = regime.mode + offset;
        const float falls = kFall * (k + 1) * drops[k];
        drops[k] -= falls;
        rain += falls;
    }
    return rain;
}

__device__ float evaporate(Cell& cell, float rain, float holds) {
    const float dryness = fmaxf(1 - cell.vapour / holds, 0.0f);
    const float evaporated = kEvaporation * dryness * rain;
    cell.vapour += evaporated;
    cell.temperature -= kHeatOfVapour * evaporated;
    return rain - evaporated;
}

// Cloud drops of very cold air freeze at a rate that depends on their size; the ice falls out.
__device__ float freeze(Cell& cell, float found) {
    const float radius = 5.0f * powf(cell.cloud + 0.01f, 0.3333333f);
    const float volume = 4.18879f * powf(radius, 3.0f);
    const float nucleation = expf(0.9f * (kVeryCold - found)) * powf(volume, 0.77f);
    const float activity = 1 - expf(-1e-3f * nucleation * logf(2 + radius));
    const float frozen = cell.cloud * activity * powf(activity + 0.1f, 0.2f) * 0.9f;
    cell.cloud -= frozen;
    cell.temperature += kHeatOfFusion * frozen;
    return frozen;
}

__global__ void __launch_bounds__(kThreads, 12) step_columns(Problem problem) {
    __shared__ float masses[kClasses][kThreads];
    const int column = blockIdx.x * kThreads + threadIdx.x;
    if (column >= problem.columns) return;
    const float slant = slant_of(problem.zenith[column]);
    float light = 1000.0f / slant;
    Spectrum drops(&masses[0][threadIdx.x]);

    for (int level = 0; level < kLevels; ++level) {
        const size_t here = size_t(level) * problem.columns + column;
        const float found = problem.temperature[here];
        Cell cell{found, problem.pressure[here], problem.vapour[here], problem.cloud[here]};
        const Regime regime(problem.drop_class[here], problem.updraught[here]);

        light = radiate(cell, light, slant);
        const float holds = condense(cell);
        form_drops(cell, drops, regime);
        grow_drops(cell, drops, regime);
        break_drops(drops, regime);
        float rain = evaporate(cell, fall_out(drops, regime), holds);
        if (found < kVeryCold) rain += freeze(cell, found);

        problem.temperature_out[here] = cell.temperature;
        problem.vapour_out[here] = cell.vapour;
        problem.cloud_out[here] = cell.cloud;
        problem.rain_out[here] = rain;
    }
}

void launch(const Problem& problem) {
    step_columns<<<(problem.columns + kThreads - 1) / kThreads, kThreads>>>(problem);
}
