#include "problem.h"
#include "state_math.h"

constexpr int kThreads = 256;
constexpr float kExcess = air::gamma - 1;
constexpr float kPerPressure = 1 / air::ref_pressure;
constexpr float kPerDensity = 1 / air::ref_density;
constexpr float kPerEnergy = 1 / (air::heat_capacity * air::ref_temperature);
constexpr float kGamma = air::gamma;
constexpr float kViscosityExponent = air::viscosity_exponent;

__global__ void gas_state(Problem problem) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= problem.n) return;
    const float density = problem.density[i];
    const float energy = problem.energy[i];

    const float pressure = kExcess * density * energy;
    const float stagnation = state::stagnation_ratio(problem.mach[i], kGamma);
    const float adiabat =
        state::adiabat(pressure * kPerPressure, density * kPerDensity, kGamma);
    const float viscosity = state::viscosity_ratio(energy * kPerEnergy, kViscosityExponent);

    problem.stagnation[i] = pressure * stagnation;
    problem.entropy[i] = air::heat_capacity * logf(adiabat);
    problem.viscosity[i] = air::ref_viscosity * viscosity;
}

void launch(const Problem& problem) {
    gas_state<<<(problem.n + kThreads - 1) / kThreads, kThreads>>>(problem);
}
