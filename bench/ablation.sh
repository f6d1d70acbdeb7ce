#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every schedule at several prompt lengths: time to first logits and peak memory of a full-size OLMoE with random
# weights, as one JSON object a run in FOLDER/ablation.jsonl. bench/plots.sh draws them.
#
#   bench/ablation.sh FOLDER [REPEATS [TOKENS...]]      needs 8 GB free in FOLDER; root, to drop caches
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:?a folder with 8 GB free}
repeats=${2:-3}
shift $(($# < 2 ? $# : 2))
lengths=("${@:-256 512 1024 2048 4096}")
read -ra lengths <<< "${lengths[*]}"
estream=build/release/estream
pack=$folder/olmoe-1b-7b-q4_0.estream.gguf
out=$folder/ablation.jsonl

[[ -e $pack ]] || build/release/estream-synth --model olmoe-1b-7b --type q4_0 - | "$estream" pack - -o "$pack"

# Token ids spread over the vocabulary, the same in every run.
ids() {
  awk -v n="$1" 'BEGIN { s = 1; for (i = 0; i < n; ++i) { s = (s * 69069 + 1) % 4294967296;
    printf "%s%d", i ? "," : "", 1000 + s % 49000 } }'
}

: > "$out"
for tokens in "${lengths[@]}"; do
  prompt=$(ids "$tokens")
  for _ in $(seq "$repeats"); do
    for schedule in resident naive layer-2 layer-all graph-per-expert per-layer stream; do
      shape=()
      [[ $schedule == per-layer || $schedule == stream ]] && shape=(--group 2 --banks 6 --queue-depth 2)
      sync
      echo 3 > /proc/sys/vm/drop_caches 2> /dev/null || true
      "$estream" run -m "$pack" --tokens "$prompt" --json --schedule "$schedule" "${shape[@]}" |
        jq -c --arg schedule "$schedule" '{schedule: $schedule, tokens, ttft_s, peak_rss_bytes, bubble_rate, compute_s,
          io_s, stall_s, read_bytes, wasted_bytes}' >> "$out"
    done
  done
done

# Medians: a row a schedule, "seconds / MiB" a length.
jq -rs 'def median: sort | .[length / 2 | floor];
  ([.[].tokens] | unique) as $lengths
  | (["schedule"] + ($lengths | map("\(.) tokens"))),
    (group_by(.schedule)[] as $runs | [$runs[0].schedule]
      + ($lengths | map(. as $t | [$runs[] | select(.tokens == $t)]
          | "\([.[].ttft_s] | median * 1000 | round / 1000) s / \([.[].peak_rss_bytes] | median / 1048576 | round) MiB")))
  | @tsv' "$out" | column -t -s "$(printf '\t')"
