// scores[i][j] = dot(queries[i], items[j]) for all pairs of vectors; row-major, in float.
// The counts and the length of the vectors are multiples of 128.
#pragma once

struct Problem {
    int query_count, item_count, length;
    const float* queries;  // query_count x length
    const float* items;    // item_count x length
    float* scores;         // query_count x item_count
};

void launch(const Problem& problem);
