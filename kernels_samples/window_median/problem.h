// Running median of each sensor: medians[t][s] is the median of samples[t .. t + kWindow - 1][s].
#pragma once

constexpr int kWindow = 63;   // frames
constexpr int kLevels = 200;  // samples are 0 .. kLevels - 1

struct Problem {
    int sensors;
    int frames;
    const unsigned char* samples;  // [frames][sensors]
    unsigned char* medians;        // [frames - kWindow + 1][sensors]
};

void launch(const Problem& problem);
