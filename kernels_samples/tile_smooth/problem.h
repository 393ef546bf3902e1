// smooth[y][x] = sum over the 9 x 9 neighbours of weight * image: the blur of a point-spread
// function. The image has a margin of kRadius pixels all round, and below it kSpare further rows,
// so that tiles of any height may read past the last row they write.
#pragma once

constexpr int kSize = 4096;
constexpr int kRadius = 4;
constexpr int kTaps = 2 * kRadius + 1;
constexpr int kPitch = kSize + 2 * kRadius;
constexpr int kSpare = 64;
constexpr int kRows = kSize + 2 * kRadius + kSpare;

struct Spread {
    float weights[kTaps][kTaps];
};

struct Problem {
    Spread spread;
    const float* image;  // kRows x kPitch
    float* smooth;       // kSize x kSize
};

void launch(const Problem& problem);
