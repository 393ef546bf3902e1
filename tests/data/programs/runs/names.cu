// Names that a filter has to tell apart: templates, a namespace, the same function in two streams,
// a graph, and many very short launches.
#include "check.h"

namespace inner {
template <typename T, int N>
__global__ void apply(T *data) {
    data[threadIdx.x] += T(N);
}
}  // namespace inner

int main(int argc, char **argv) {
    int many = argc > 1 ? atoi(argv[1]) : 1000;
    float *data = filled(4096);
    cudaStream_t streams[2];
    for (auto &stream : streams) CHECK(cudaStreamCreate(&stream));
    for (int i = 0; i < 6; i++) {
        inner::apply<float, 1><<<1 + i, 32, 0, streams[i % 2]>>>(data);
        inner::apply<float, 2><<<11 + i, 32>>>(data);
        inner::apply<int, 1><<<21 + i, 32>>>((int *)data);
    }
    cudaGraph_t graph;
    cudaGraphExec_t run;
    CHECK(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeGlobal));
    for (int i = 0; i < 3; i++) inner::apply<float, 2><<<31 + i, 32, 0, streams[0]>>>(data);
    CHECK(cudaStreamEndCapture(streams[0], &graph));
    CHECK(cudaGraphInstantiate(&run, graph, 0));
    for (int i = 0; i < 2; i++) CHECK(cudaGraphLaunch(run, streams[0]));
    for (int i = 0; i < many; i++) inner::apply<int, 2><<<1, 32>>>((int *)data);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    printf("names: %f\n", first_of(data));
    return 0;
}
