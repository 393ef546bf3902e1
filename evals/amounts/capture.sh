#!/bin/bash
# Builds known.cu and invariant.cu, checks their results, and profiles every kernel of both.
# Usage: capture.sh FOLDER; needs nvcc, ncu and a GPU of compute capability 9.0 (ARCH=sm_xx for others).
# SET=second does so with the held-out programs known_second.cu and invariant_second.cu, SET=third
# with known_third.cu.
# Leaves a .ncu-rep of each program in FOLDER; stops at the first thing that is wrong.
# `keet snapshot NAME.ncu-rep -o evals/amounts/NAME.keet.json.zst` takes one into the repository.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?usage: capture.sh FOLDER}
case "${SET:-first}" in
    first) programs=(known invariant) ;;
    second) programs=(known_second invariant_second) ;;
    third) programs=(known_third) ;;
    *) echo "SET is first, second or third" >&2; exit 2 ;;
esac
mkdir -p "$out"
out=$(cd "$out" && pwd)
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cd "$here"  # The reports name the sources as the compiler saw them.
for program in "${programs[@]}"; do
    nvcc -O3 -lineinfo -arch="${ARCH:-sm_90}" -o "$build/$program" "$program.cu"
    "$build/$program"
done
for program in "${programs[@]}"; do
    ncu --set full --import-source yes --clock-control none -f -o "$out/$program" "$build/$program"
done
ls -l "$out"
