// Drawdown of price paths: with s the cumulative sum of a row, out[i] = max(s[0 .. i]) - s[i].
#pragma once

struct Problem {
    int rows;
    int columns;      // a multiple of 4
    const float* in;  // [rows][columns]
    float* out;       // [rows][columns]
};

void launch(const Problem& problem);
