#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Draws the frontier of latency and memory from what bench/ablation.sh wrote: an SVG for each prompt length.
#
#   bench/plots.sh FOLDER/ablation.jsonl [OUT]      needs gnuplot-nox and jq; OUT is docs/plots unless said
set -euo pipefail
runs=$(realpath "${1:?a file that bench/ablation.sh wrote}")
cd "$(dirname "$0")/.."
out=${2:-docs/plots}
mkdir -p "$out"
data=$(mktemp)
trap 'rm -f "$data"' EXIT

for tokens in $(jq -s 'map(.tokens) | unique[]' "$runs"); do
  # schedule, peak MiB, seconds: medians.
  jq -rs --argjson tokens "$tokens" 'def median: sort | .[length / 2 | floor];
    map(select(.tokens == $tokens)) | group_by(.schedule)[]
    | [.[0].schedule, ([.[].peak_rss_bytes] | median / 1048576), ([.[].ttft_s] | median)] | @tsv' "$runs" > "$data"
  gnuplot <<- PLOT
	set terminal svg size 760,440 font "sans-serif,13" background "white"
	set output "$out/frontier-$tokens.svg"
	set title "OLMoE-1B-7B Q4_0, $tokens tokens" noenhanced
	set xlabel "peak memory, MiB"
	set ylabel "time to first logits, s"
	set logscale x 2
	set xrange [128:8192]
	set yrange [0:*]
	set offsets 0, 0, graph 0.12, 0
	set grid
	set key outside right center Left reverse noenhanced
	names = "$(cut -f1 "$data" | tr '\n' ' ')"
	marks = "4 6 8 10 12 5 7"
	plot for [i = 1:words(names)] "$data" every ::i-1::i-1 using 2:3 with points pointtype (int(word(marks, i))) linewidth 1.5 title word(names, i)
	PLOT
  echo "$out/frontier-$tokens.svg"
done
