// One step of a reacting flow: each cell mixes with the cells upstream of it, and a cell above the
// ignition temperature is heated by the chains that break up in it.
#pragma once

constexpr int kPatch = 32;            // cells of a patch, numbered one after another
constexpr int kHops = 16;             // cells upstream that reach a cell within a step
constexpr float kReach = 0.8f;        // weight of a donor against the cell it flows into
constexpr int kSpecies = 64;          // chains of 1, 2, ... bonds; a multiple of 4
constexpr float kIgnition = 1500.0f;  // K
constexpr float kActivation = 4000.0f;
constexpr int kSteps = 4;             // steps of the chemistry within one of the flow
constexpr float kStep = 0.1f;
constexpr float kHeat = 25.0f;

struct Problem {
    int cells;
    const int* donor;          // [cells], the next cell upstream
    const float* temperature;  // [cells], K
    const float* composition;  // [cells / kPatch][kSpecies], mass fractions within a patch
    int* workspace;            // room for cells + 1 integers
    float* next;               // [cells], the temperature after the step
};

void launch(const Problem& problem);
