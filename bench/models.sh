#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every supported family at its full size, with random weights: made through a pipe into a pack, one prompt streamed with
# cold caches, removed before the next. Prints sizes, the share of experts that a prompt activates, time and memory.
#
#   bench/models.sh FOLDER [TOKENS] [MODEL...]      needs 28 GB free in FOLDER for Mixtral; root, to drop caches
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:?a folder with 28 GB free}
tokens=${2:-256}
shift $(($# < 2 ? $# : 2))
models=("$@")
[[ ${#models[@]} -gt 0 ]] || models=(olmoe-1b-7b lfm2.5-8b-a1b deepseek-v2-lite qwen3-30b-a3b mixtral-8x7b)
estream=build/release/estream
synth=build/release/estream-synth

# Token ids spread over the vocabulary, the same in every run; 31,000 is inside all of them.
ids=$(awk -v n="$tokens" 'BEGIN { s = 1; for (i = 0; i < n; ++i) { s = (s * 69069 + 1) % 4294967296;
  printf "%s%d", i ? "," : "", 1000 + s % 30000 } }')

# field NAME: its first number in the JSON on standard input.
field() { grep -oE "\"$1\": ?[0-9.e+-]+" | head -n 1 | sed -E 's/.*: ?//'; }

echo "$tokens tokens, G=2 B=6 Q=2, cold caches"
printf '%-17s %10s %14s %10s %9s %9s %9s %9s\n' model expert_GB non_expert_GB active_% ttft_s read_GB bubble_% peak_MiB
for model in "${models[@]}"; do
  pack=$folder/$model.estream.gguf
  trap 'rm -f "$pack" "$pack.partial"' EXIT
  "$synth" --model "$model" --type q4_0 - 2> /dev/null | "$estream" pack - -o "$pack" -q --force
  facts=$("$estream" inspect "$pack" --json)
  sync
  echo 3 > /proc/sys/vm/drop_caches 2> /dev/null || true
  run=$("$estream" run -m "$pack" --tokens "$ids" --json --group 2 --banks 6 --queue-depth 2)
  awk -v model="$model" -v expert="$(field expert_bytes <<< "$facts")" \
    -v other="$(field non_expert_bytes <<< "$facts")" -v layers="$(field sparse_layers <<< "$facts")" \
    -v experts="$(field experts <<< "$facts")" -v active="$(field active_experts <<< "$run")" \
    -v ttft="$(field ttft_s <<< "$run")" -v read="$(field read_bytes <<< "$run")" \
    -v bubble="$(field bubble_rate <<< "$run")" -v peak="$(field peak_rss_bytes <<< "$run")" 'BEGIN {
      printf "%-17s %10.2f %14.2f %10.1f %9.2f %9.2f %9.2f %9.0f\n", model, expert / 1e9, other / 1e9,
        100 * active / (layers * experts), ttft, read / 1e9, 100 * bubble, peak / 1048576 }'
  rm -f "$pack"
done
