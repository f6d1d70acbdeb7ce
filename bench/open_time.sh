#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How long `estream inspect` takes for a model of 17 GB: all of its header, 150,000 tokens and merges included, read and
# checked. The file is Qwen3-30B-A3B's in header and size; its weights are a hole, which no byte is read from.
#
#   bench/open_time.sh FOLDER [REPEATS] [BUILD]       needs a file system with sparse files, and 5 MB
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:?a folder on a file system with sparse files}
repeats=${2:-9}
build=${3:-build/release}
model=$folder/hollow-qwen3-30b-a3b.gguf
trap 'rm -f "$model"' EXIT
"$build/estream-synth" --model qwen3-30b-a3b --hollow "$model"
sync "$model"

# Takes the file, and nothing else, out of the page cache.
forget() { dd if="$model" iflag=nocache count=0 status=none; }

# once: milliseconds of wall clock for one run.
once() {
  local begin=$EPOCHREALTIME
  "$build/estream" inspect "$model" > /dev/null
  awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.0f\n", (b - a) * 1e3 }'
}

# report NAME: smallest, median and largest of the lines on standard input.
report() { sort -g | awk -v n="$1" '{ v[NR] = $1 } END { print n, v[1], v[int((NR + 1) / 2)], v[NR] }'; }

echo "$(stat -c %s "$model") bytes, of which $(($(stat -c %b "$model") * 512)) on disk; ms: least, median, most of $repeats"
for _ in $(seq "$repeats"); do forget; once; done | report cold
for _ in $(seq "$repeats"); do once; done | report warm
