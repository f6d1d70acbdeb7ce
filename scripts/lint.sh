#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-format and clang-tidy (.clang-tidy) over the sources; any complaint is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh dev

git ls-files '*.cc' '*.h' | xargs clang-format-14 --dry-run --Werror
echo "clang-format: no complaints"

# clang-tidy reads how each file is compiled; nothing is built.
mkdir -p build/lint
CC=clang-14 CXX=clang++-14 cmake --preset debug -B build/lint -DES_BENCH=ON > build/lint/configure.log 2>&1 ||
  { cat build/lint/configure.log >&2; exit 1; }
git ls-files 'src/*.cc' | grep -v '_test\.cc$' |
  xargs -P "${JOBS:-$(nproc)}" -n 8 clang-tidy-14 -p build/lint --quiet --warnings-as-errors='*' 2> build/lint/tidy.log ||
  { grep -v 'warnings\? generated' build/lint/tidy.log >&2 || true; exit 1; }
echo "clang-tidy: no complaints"
