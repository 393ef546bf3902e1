#!/usr/bin/env bash
# Makes the reports and tables of tests/data/runs again, on a machine with a GPU, nvcc and ncu, and
# prints what keet profile says: tests/data/programs/runs/capture.sh OUT
# keet has to be importable by python3. Clocks are left as they are.
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
arch=${ARCH:-sm_90}
build=/tmp/keet-runs
rm -rf "$build" && mkdir -p "$build" && cp "$here"/*.cu "$here"/*.h "$here"/*.py "$build" && cd "$build"
for name in managed_flags growing steps streams waits names; do
    nvcc -std=c++17 -O3 -arch="$arch" -lineinfo -o "$name" "$name.cu" &
done
wait

profile() {  # profile NAME OPTIONS... -- COMMAND...
    local name=$1; shift
    echo "\$ keet profile -o $name.ncu-rep $*"
    python3 -m keet profile --format path -o "$out/$name.ncu-rep" "$@"
    echo "exit code $?"
    echo
}

{
    profile managed -- ./managed_flags 100
    profile growing -- ./growing
    profile steps_many --light -- ./steps many
    profile steps_one --light -- ./steps one
    profile streams_serial --light -- ./streams serial
    profile streams_together --light -- ./streams together
    profile waits --light --kernel-timeout 15 -- ./waits
    profile waits_range --range -- ./waits range
} 2>&1 | tee "$out/transcript.txt"
# Kept compressed, where they were copied to: zstd -19 --rm X.ncu-rep -o X.ncu-repz
