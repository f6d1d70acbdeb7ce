#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every test, three times over: optimised, under the address and undefined-behaviour sanitizers, and what runs threads
# under the thread sanitizer. LONG=1 fuzzes each target for 30 s as well. Ends with ctest's closing line of each part.
set -euo pipefail
cd "$(dirname "$0")/.."
export JOBS=${JOBS:-$(nproc)}
export UBSAN_OPTIONS=print_stacktrace=1

# The programs whose code shares memory between threads.
threaded=(base_test residency_test device_test pipeline_test engine_test)

closing_lines=()
failed=0

# run_ctest PRESET [ctest arguments...]: runs it and keeps its closing line.
run_ctest() {
  local preset=$1 log=build/$1/ctest.log
  shift
  ctest --test-dir "build/$preset" -j "$JOBS" --output-on-failure --no-tests=error "$@" < /dev/null 2>&1 |
    tee "$log" | grep -vE '^ *(Start +[0-9]+:|[0-9]+/[0-9]+ Test .* Passed )' || true
  [[ ${PIPESTATUS[0]} -eq 0 ]] || failed=1
  closing_lines+=("$preset: $(grep -E '% tests passed' "$log" || echo 'ctest did not finish')")
}

# existing PRESET NAME...: those of the test programs that the preset has.
existing() {
  local preset=$1 targets
  shift
  targets=$(cmake --build "build/$preset" --target help)
  for name in "$@"; do
    grep -q "^$name:" <<< "$targets" && echo "$name"
  done
  return 0
}

if [[ ${LONG:-0} == 1 ]]; then scripts/setup.sh dev; else scripts/setup.sh; fi

echo "== release =="
scripts/build.sh release
run_ctest release

echo "== address and undefined-behaviour sanitizers =="
scripts/build.sh asan
run_ctest asan

echo "== thread sanitizer =="
scripts/build.sh tsan help > /dev/null
mapfile -t programs < <(existing tsan "${threaded[@]}")
scripts/build.sh tsan "${programs[@]}"
run_ctest tsan -L "^($(IFS='|'; echo "${programs[*]}"))\$"

if [[ ${LONG:-0} == 1 ]]; then
  echo "== fuzzing =="
  scripts/build.sh fuzz
  for target in build/fuzz/*_fuzz; do
    name=$(basename "$target")
    mkdir -p "build/fuzz/corpus/$name"
    "$target" -max_total_time=30 -print_final_stats=0 -verbosity=0 -artifact_prefix="build/fuzz/$name-" \
      "build/fuzz/corpus/$name" "fuzz/corpus/${name%_fuzz}" && result="30 s without a finding" || { result="FAILED"; failed=1; }
    closing_lines+=("$name: $result")
  done
fi

echo
printf '%s\n' "${closing_lines[@]}"
exit "$failed"
