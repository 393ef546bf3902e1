// One time step of cloud and warm-rain physics in a batch of atmospheric columns: radiation,
// condensation, drop formation, drop growth by classes of mass, fall-out, freezing of cold cloud.
#pragma once

constexpr int kLevels = 40;   // from the top of the atmosphere down
constexpr int kClasses = 32;  // of drop mass
constexpr int kReach = 4;     // the spectrum is worked on this far to both sides of its mode

// All fields are [level][column]; water is in g/kg of air.
struct Problem {
    int columns;
    const float* zenith;       // of the sun, degrees, [column]
    const float* temperature;  // K
    const float* pressure;     // hPa
    const float* vapour;
    const float* cloud;
    const float* drop_class;   // mean class of new drops, in [kReach, kClasses - kReach - 4)
    const float* updraught;    // m/s, in [0, 3)
    float* temperature_out;
    float* vapour_out;
    float* cloud_out;
    float* rain_out;           // water that leaves the cell downwards
};

void launch(const Problem& problem);
