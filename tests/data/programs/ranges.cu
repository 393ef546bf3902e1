// NVTX ranges, a profiler range and a CUDA graph in one program: what a report
// holds besides single kernels. `ranges nvtx|range|graph` picks the part.
#include <cstdio>
#include <cstring>
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>

__global__ void fill(float* data, float value, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] = value;
}

__global__ void scale(float* data, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] *= factor;
}

static int with_nvtx(float* data, int n) {
    nvtxDomainHandle_t solver = nvtxDomainCreateA("solver");
    nvtxEventAttributes_t event = {};
    event.version = NVTX_VERSION;
    event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    event.messageType = NVTX_MESSAGE_TYPE_ASCII;
    event.message.ascii = "iteration 1";
    nvtxRangePushA("setup");
    nvtxRangePushA("fill, \"quoted\"");
    fill<<<256, 256>>>(data, 1.0f, n);
    nvtxRangePop();
    nvtxRangePop();
    nvtxRangeId_t whole = nvtxDomainRangeStartEx(solver, &event);
    nvtxDomainRangePushEx(solver, &event);
    scale<<<256, 256>>>(data, 2.0f, n);
    nvtxDomainRangePop(solver);
    nvtxDomainRangeEnd(solver, whole);
    scale<<<256, 256>>>(data, 3.0f, n);
    return cudaDeviceSynchronize();
}

static int with_range(float* data, int n) {
    cudaProfilerStart();
    fill<<<256, 256>>>(data, 1.0f, n);
    scale<<<256, 256>>>(data, 2.0f, n);
    cudaProfilerStop();
    return cudaDeviceSynchronize();
}

static int with_graph(float* data, int n) {
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaStreamCreate(&stream);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    fill<<<256, 256, 0, stream>>>(data, 1.0f, n);
    for (int i = 0; i < 3; ++i) scale<<<256, 256, 0, stream>>>(data, 2.0f, n);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&exec, graph, 0);
    cudaGraphLaunch(exec, stream);
    return cudaStreamSynchronize(stream);
}

int main(int argc, char** argv) {
    const int n = 256 * 256;
    const char* part = argc > 1 ? argv[1] : "nvtx";
    float* data = nullptr;
    if (cudaMalloc(&data, n * sizeof(float)) != cudaSuccess) return 1;
    int status = !std::strcmp(part, "range")   ? with_range(data, n)
                 : !std::strcmp(part, "graph") ? with_graph(data, n)
                                               : with_nvtx(data, n);
    std::printf("ranges %s: %s\n", part, status ? "failed" : "done");
    return status;
}
