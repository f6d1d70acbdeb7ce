#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Cross-compiles the tests of kernels, devices, reads and streaming for 64-bit Arm and runs them under QEMU. Ends with
# one line for each program. QEMU has no io_uring: its tests skip themselves, all others read by threads, which the
# engine finds out by itself.
set -euo pipefail
cd "$(dirname "$0")/.."
export JOBS=${JOBS:-$(nproc)}

scripts/setup.sh arm64
scripts/arm64_libraries.sh build/arm64-root
programs=(kernels_test base_test format_test residency_test device_test oracle_test streaming_test)
scripts/build.sh arm64 "${programs[@]}"

closing_lines=()
failed=0

# run PROGRAM CPU [googletest arguments...]: its cases in JOBS shares at a time, on the processor that QEMU plays.
run() {
  local program=$1 cpu=$2 share shares=() passed=0 skipped=0 result=passed
  shift 2
  local log=build/arm64/$program-$cpu
  for ((share = 0; share < JOBS; ++share)); do
    GTEST_TOTAL_SHARDS=$JOBS GTEST_SHARD_INDEX=$share qemu-aarch64 -L /usr/aarch64-linux-gnu -cpu "$cpu" \
      "build/arm64/$program" "$@" > "$log-$share.log" 2>&1 < /dev/null &
    shares+=($!)
  done
  for share in "${!shares[@]}"; do
    if ! wait "${shares[$share]}"; then
      result=FAILED
      failed=1
      grep -vE '^\[ +(OK|RUN) +\]' "$log-$share.log" | tail -n 40
    fi
    passed=$((passed + $(grep -c '^\[ *OK \]' "$log-$share.log" || true)))
    skipped=$((skipped + $(grep -c '^\[ *SKIPPED \] .* ms)$' "$log-$share.log" || true)))
  done
  closing_lines+=("$(printf '%-15s on %-10s %s: %d cases, %d more skipped' \
    "$program" "$cpu" "$result" "$passed" "$skipped")")
  echo "${closing_lines[-1]}"
}

# `max` has everything, the integer dot product too; a Cortex-A57 does not have that.
run kernels_test max
run kernels_test cortex-a57 --gtest_filter='MatMulPanelQ8.*'
run base_test max
run format_test max
run residency_test max --gtest_filter='-TapeWalkModel.*'  # plain C++, half a minute
run device_test max
# Left out: the scalar device, which has no code of this processor's own, and a long comparison with figures of
# another engine.
run oracle_test max --gtest_filter='-*reference:Q8Activations.*'
run streaming_test max

echo
printf '%s\n' "${closing_lines[@]}"
exit "$failed"
