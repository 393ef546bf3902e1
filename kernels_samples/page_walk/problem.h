// sums[i] = the sum of all entries of list i, a chain of 128-byte pages in a shared pool.
#pragma once

constexpr int kEntries = 31;

struct Page {
    int next;  // index of the next page of the list, -1 in the last one
    float entries[kEntries];
};

struct Problem {
    int lists;
    const int* heads;  // first page of each list
    const Page* pages;
    float* sums;
};

void launch(const Problem& problem);
