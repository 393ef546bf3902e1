#!/usr/bin/env bash
# Makes every report of tests/data/reports again, on a machine with a GPU, nvcc and ncu:
#   tests/data/programs/capture.sh OUT
# Clocks are left as they are (--clock-control none): the reports are test data, not results.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
arch=${ARCH:-sm_90}
# One neutral place for sources and programs: their paths are written into the reports.
build=/tmp/keet-reports
rm -rf "$build" && mkdir -p "$build" && cp "$here"/*.cu "$here"/*.cuh "$here"/*.py "$build"
cd "$build"
nvcc -std=c++17 -O3 -arch="$arch" -lineinfo -o "$build/tour" tour.cu
nvcc -std=c++17 -O3 -arch="$arch" -o "$build/tour_plain" tour.cu
nvcc -std=c++17 -O3 -arch="$arch" -lineinfo -o "$build/zoo" zoo.cu
nvcc -std=c++17 -O3 -arch="$arch" -o "$build/ranges" ranges.cu

profile() {  # profile NAME NCU-OPTIONS... -- COMMAND...
    local name=$1; shift
    ncu --clock-control none -f -o "$out/$name" "$@" > "$out/$name.log" 2>&1 \
        || { echo "$name failed:"; tail -5 "$out/$name.log"; }
}

profile tour_full   --set full --import-source yes -c 3 "$build/tour"
profile tour_lines  --set detailed --import-source yes "$build/tour"
profile tour_nolines --set detailed "$build/tour_plain"
profile tour_basic  --set basic "$build/tour_plain"
profile zoo         --set full "$build/zoo"
profile nvtx        --set basic --nvtx "$build/ranges" nvtx
profile range       --set basic --replay-mode range "$build/ranges" range
profile graph       --set basic --graph-profiling graph "$build/ranges" graph
profile processes   --set basic --target-processes all \
    bash -c "$build/ranges nvtx; $build/tour_plain"
profile triton      --set detailed --import-source yes -k softmax_rows python3 softmax.py
profile metrics_only --metrics gpu__time_duration.sum,dram__bytes_read.sum "$build/tour_plain"

# A table as people keep it: ncu's log lines and the program's own output around it.
ncu --clock-control none --set basic --csv --page raw "$build/tour_plain" > "$out/tour_basic.live.csv"
ncu --clock-control none --set basic --csv --page raw --nvtx "$build/ranges" nvtx > "$out/nvtx.live.csv"

# A chain of kernels before and after somebody worked on it, for `keet diff`. keet has to be importable.
for side in before after; do
    mkdir -p "$build/$side" && cp "$here/pipeline/$side.cu" "$build/$side/pipeline.cu"
    (cd "$build/$side" && nvcc -std=c++17 -O3 -arch="$arch" -lineinfo -o pipeline pipeline.cu)
    python3 -m keet profile -o "$out/pipeline_$side.ncu-rep" --launch-count 20 --format path -- "./$side/pipeline"
done
more=(--section SchedulerStats --section WarpStateStats --section InstructionStats --section SpeedOfLight_RooflineChart)
profile pipeline_double --set detailed "${more[@]}" --import-source yes ./before/pipeline 8388608
profile pipeline_again  --set detailed "${more[@]}" --import-source yes ./before/pipeline
profile pipeline_warm   --set basic --cache-control none ./before/pipeline
# Kept compressed, where they were copied to: zstd -19 --rm X.ncu-rep -o X.ncu-repz, except
# tour_full, tour_basic and range, which other programs open.
