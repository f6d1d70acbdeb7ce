#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every test under the address and undefined-behaviour sanitizers; those of numbers and bits also as users build them,
# optimised and with every SIMD target; what runs threads also under the thread sanitizer. LONG=1 fuzzes each target for
# 30 s as well. Ends with ctest's closing line of each part.
set -euo pipefail
cd "$(dirname "$0")/.."
export JOBS=${JOBS:-$(nproc)}
export UBSAN_OPTIONS=print_stacktrace=1

# The programs whose results could depend on optimisation or SIMD target.
optimised='(kernels|device|oracle|mistakes|streaming)_test'

# The programs whose code shares memory between threads.
threaded='(base|residency|pipeline|streaming)_test'

closing_lines=()
failed=0

# run_ctest PRESET [ctest arguments...]: runs it and keeps its closing line.
run_ctest() {
  local preset=$1 log=build/$1/ctest.log status
  shift
  set +e
  ctest --test-dir "build/$preset" -j "$JOBS" --output-on-failure --no-tests=error "$@" < /dev/null 2>&1 |
    tee "$log" | grep -vE '^ *(Start +[0-9]+:|[0-9]+/[0-9]+ Test .* Passed )'
  status=${PIPESTATUS[0]}
  set -e
  [[ $status -eq 0 ]] || failed=1
  closing_lines+=("$preset: $(grep -E '% tests passed' "$log" || echo 'ctest did not finish')")
}

# targets PRESET REGEX: the preset's targets whose whole name matches.
targets() {
  scripts/build.sh "$1" build.ninja > /dev/null
  ninja -C "build/$1" -t targets all | sed -nE 's/^([a-z0-9_]+): .*/\1/p' | grep -xE "$2" | sort -u
}

scripts/setup.sh test

echo "== release =="
mapfile -t programs < <(targets release "$optimised")
scripts/build.sh release "${programs[@]}"
run_ctest release -L "^$optimised\$"

echo "== address and undefined-behaviour sanitizers =="
scripts/build.sh asan
run_ctest asan

echo "== thread sanitizer =="
mapfile -t programs < <(targets tsan "$threaded")
scripts/build.sh tsan "${programs[@]}"
run_ctest tsan -L "^$threaded\$" -E '^(TapeWalkModel|LayerTime|Simulate)'  # they have one thread

if [[ ${LONG:-0} == 1 ]]; then
  echo "== fuzzing =="
  mapfile -t programs < <(targets fuzz '[a-z0-9_]+_fuzz')
  scripts/build.sh fuzz "${programs[@]}"
  for program in "${programs[@]}"; do
    found=build/fuzz/corpus/$program  # what this run adds; the kept corpus is only read
    mkdir -p "$found"
    result="30 s without a finding"
    "build/fuzz/$program" -max_total_time=30 -verbosity=0 -artifact_prefix="build/fuzz/$program-" "$found" \
      "fuzz/corpus/${program%_fuzz}" || { result="FAILED, see build/fuzz/$program-*"; failed=1; }
    closing_lines+=("$program: $result")
  done
fi

echo
printf '%s\n' "${closing_lines[@]}"
exit "$failed"
