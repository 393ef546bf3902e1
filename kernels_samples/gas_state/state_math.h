// Constants of air, and formulas of its state.
#pragma once

#include <cmath>

namespace air {

constexpr auto gamma = 1.4;                // ratio of specific heats
constexpr auto viscosity_exponent = 1.5;   // in Sutherland's law
constexpr auto sutherland = 110.4f;        // K
constexpr auto heat_capacity = 717.625f;   // J / (kg K), at constant volume
constexpr auto ref_density = 1.225f;       // kg / m^3
constexpr auto ref_pressure = 101325.0f;   // Pa
constexpr auto ref_temperature = 273.15f;  // K
constexpr auto ref_viscosity = 1.716e-5f;  // Pa s

}  // namespace air

namespace state {

// x to the power y, for positive x.
template <class X, class Y>
__device__ inline auto power(X x, Y y) {
    return pow(x, y);
}

__device__ inline float power(float x, float y) {
    return __powf(x, y);
}

// Pressure of a flow brought to rest without losses, over its static pressure.
template <class Real, class Constant>
__device__ inline Real stagnation_ratio(Real mach, Constant gamma) {
    const Real heating = 1 + (gamma - 1) / 2 * mach * mach;
    return power(heating, gamma / (gamma - 1));
}

// p / rho^gamma, over that of the reference state.
template <class Real, class Constant>
__device__ inline Real adiabat(Real pressure_ratio, Real density_ratio, Constant gamma) {
    return pressure_ratio * power(density_ratio, -gamma);
}

// Sutherland's law, over the viscosity at the reference temperature.
template <class Real, class Constant>
__device__ inline Real viscosity_ratio(Real temperature_ratio, Constant exponent) {
    const Real pull = air::sutherland / air::ref_temperature;
    return power(temperature_ratio, exponent) * (1 + pull) / (temperature_ratio + pull);
}

}  // namespace state
