#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Configures and builds a preset: build.sh PRESET [TARGET...]. Says nothing of the configuring unless it fails.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=$1
shift
launcher=()
if command -v ccache > /dev/null; then
  launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
fi
mkdir -p "build/$preset"
log=build/$preset/configure.log
if ! cmake --preset "$preset" "${launcher[@]}" > "$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
cmake --build "build/$preset" -j "${JOBS:-$(nproc)}" ${1:+--target "$@"}
