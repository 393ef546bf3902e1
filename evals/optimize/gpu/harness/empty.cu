// The program that does nothing but launch a kernel: what a launch takes beside its work.
#include "problem.h"

#include <cuda_runtime.h>

#ifdef __CUDACC__
__global__ void nothing() {}
void launch(const Problem&) { nothing<<<1, 1>>>(); }
#else
void launch(const Problem&) {}
#endif
