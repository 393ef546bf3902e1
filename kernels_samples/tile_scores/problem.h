// scores[i][j] = cosine of the angle between query i and document j.
#pragma once

// Both tables are feature-major: the values of one feature of all items lie side by side.
struct Problem {
    int queries;    // a multiple of 256
    int documents;  // a multiple of 256
    int features;   // a multiple of 32
    const float* query_table;
    const float* document_table;
    float* query_scale;     // room for one number a query
    float* document_scale;  // room for one number a document
    float* scores;
};

void launch(const Problem& problem);
