// count[k] = how often key k occurs.
#pragma once

struct Problem {
    int n;     // keys, a multiple of 4
    int bins;  // keys are less than this
    const unsigned* key;
    unsigned* count;
};

void launch(const Problem& problem);
