#!/usr/bin/env bash
# Builds, runs and profiles the five programs, on a machine with a GPU, nvcc and ncu:
#   evals/amounts/programs/capture.sh OUT
# OUT/NAME.tar.gz holds, for each program: NAME.txt (what it printed, and its time), NAME.ncu-rep and
# NAME.run.json (keet's own choice of launches), NAME_first.ncu-rep and NAME_first.run.json (the
# first launch of every kernel, short ones too), and NAME.registers.txt. OUT/transcript.txt says
# what ran and how long it took. Reports hold the counters of ncu's full set but PM sampling, and the
# sources. keet needs no further packages for this. PROGRAMS="ising impact" captures only those.
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
export PYTHONPATH=$(cd "$here/../../.." && pwd)
arch=${ARCH:-sm_90}
programs=${PROGRAMS:-topics photoacoustic ising impact reactive}
build=${BUILD:-/tmp/keet-amounts}
sections="MemoryWorkloadAnalysis_Chart MemoryWorkloadAnalysis_Tables WorkloadDistribution
    SpeedOfLight_HierarchicalDoubleRooflineChart SpeedOfLight_HierarchicalSingleRooflineChart"
more=""
for section in $sections; do more="$more --section $section"; done

rm -rf "$build" && mkdir -p "$build" && cp "$here"/*.cu "$build" && cd "$build" || exit 2
for name in $programs; do
    nvcc -O3 -lineinfo -arch="$arch" -Xptxas -v -o "$name" "$name.cu" >"$name.registers.txt" 2>&1 &
done
wait

profile() {  # profile REPORT OPTIONS... -- COMMAND
    local report=$1
    shift
    local begin=$SECONDS
    echo "\$ keet profile -o $report.ncu-rep $*"
    python3 -m keet profile --format path --max-minutes 1 --max-passes 1000 \
        --ncu-options="${more# }" -o "$report.ncu-rep" "$@"
    echo "exit code $?, $((SECONDS - begin)) s"
}

failed=0
{
    nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.max.sm --format=csv,noheader
    nvcc --version | tail -1
    ncu --version | tail -1
    for name in $programs; do
        echo
        echo "== $name"
        { time "./$name"; } >"$name.txt" 2>&1 || { echo "$name FAILED"; failed=1; }
        cat "$name.txt"
        profile "$name" -- "./$name"
        profile "${name}_first" --first -- "./$name"
        files=$(ls "$name".txt "$name".registers.txt "$name"*.ncu-rep "$name"*.run.json)
        tar czf "$out/$name.tar.gz" $files
    done
    echo
    echo "$SECONDS s in all"
    exit $failed
} 2>&1 | tee "$out/transcript.txt"
exit "${PIPESTATUS[0]}"
