#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Streams a full-size OLMoE with random weights and prints what docs/results.md shows: peak memory, bytes read, read
# bandwidth against fio, time to first logits resident and streaming, bubble rate, and a run inside a memory cgroup.
#
#   bench/streaming.sh FOLDER [TOKENS] [REPEATS]      needs 8 GB free in FOLDER; root, to drop caches and make a cgroup
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:?a folder with 8 GB free}
tokens=${2:-1024}
repeats=${3:-3}
estream=build/release/estream
synth=build/release/estream-synth
pack=$folder/olmoe-1b-7b-q4_0.estream.gguf
export ESTREAM_CACHE_DIR=$folder/cache

[[ -e $pack ]] || "$synth" --model olmoe-1b-7b --type q4_0 - | "$estream" pack - -o "$pack"

# Token ids spread over the vocabulary, the same in every run.
ids=$(awk -v n="$tokens" 'BEGIN { s = 1; for (i = 0; i < n; ++i) { s = (s * 69069 + 1) % 4294967296;
  printf "%s%d", i ? "," : "", 1000 + s % 49000 } }')

drop_caches() { sync; echo 3 > /proc/sys/vm/drop_caches 2> /dev/null || true; }
field() { sed -E "s/.*\"$1\":([0-9.e+-]+).*/\1/"; }
median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

# fio reads into memory of huge pages, as an arena has them: into small ones it is half as fast.
huge=()
pages=/proc/sys/vm/nr_hugepages
if [[ -w $pages ]]; then
  before=$(cat "$pages")
  trap 'echo "$before" > "$pages"' EXIT
  echo $((before + 16)) > "$pages"
  huge=(--mem=shmhuge --hugepage-size=2m)
fi
read_all=(fio --name=read --filename="$pack" --rw=read --bs=$((2 * 3538944)) --iodepth=2 --ioengine=libaio --direct=1
  --readonly)

# The same shape for all, so that only the schedule differs.
shape=(--group 2 --banks 6 --queue-depth 2)

# run NAME FLAGS...: medians over the repeats, caches cold.
run() {
  local name=$1 out
  shift
  out=$(for _ in $(seq "$repeats"); do
    drop_caches
    "$estream" run -m "$pack" --tokens "$ids" --json "${shape[@]}" "$@"
  done)
  printf '%-14s' "$name"
  printf ' %s %.3f' ttft_s "$(field ttft_s <<< "$out" | median)" \
    compute_s "$(field compute_s <<< "$out" | median)" io_s "$(field io_s <<< "$out" | median)" \
    stall_s "$(field stall_s <<< "$out" | median)"
  printf ' bubble_%% %.2f' "$(field bubble_rate <<< "$out" | median | awk '{ print $1 * 100 }')"
  printf ' read_MB %.0f peak_MiB %.0f\n' "$(field read_bytes <<< "$out" | median | awk '{ print $1 / 1e6 }')" \
    "$(field peak_rss_bytes <<< "$out" | median | awk '{ print $1 / 1048576 }')"
}

echo "== $tokens tokens, medians of $repeats, cold caches =="
run resident --schedule resident
for schedule in stream per-layer after-routing on-demand; do run "$schedule" --schedule "$schedule"; done | tee "$folder/schedules.txt"

# Storage as fast as the device computes: bytes read over T_exec.
pace=$(awk '$1 == "stream" { for (i = 2; i < NF; ++i) v[$i] = $(i + 1); printf "%.0f", v["read_MB"] / v["compute_s"] }' \
  "$folder/schedules.txt")
echo "== the same, reading at most $pace MB/s, so that T_io is about T_exec =="
# More banks than above: what a layer does beside its experts must be bridged.
shape=(--group 2 --banks 24 --queue-depth 2)
for schedule in stream per-layer after-routing on-demand; do
  run "$schedule" --schedule "$schedule" --read-rate "$((pace * 1000000))"
done
shape=(--group 2 --banks 6 --queue-depth 2)

# What reading costs a computation that does not wait for it.
if command -v fio > /dev/null; then
  echo "== resident while another program reads at that rate, and alone; the third pass of each =="
  "${read_all[@]}" "${huge[@]}" --time_based --runtime=600 --rate="${pace}m" > "$folder/fio.txt" &
  fio=$!
  run beside --schedule resident --repeat 3
  kill "$fio"
  wait "$fio" || true
  run alone --schedule resident --repeat 3
fi

echo "== reading alone: every group of every layer in order, against fio at the same size and depth =="
if command -v fio > /dev/null; then
  speed() { "${read_all[@]}" --size=3500M --minimal "$@" | awk -F';' '{ printf "%.0f MB/s\n", $7 * 1.024e-3 }'; }
  drop_caches
  echo "fio, small pages: $(speed)"
  ((${#huge[@]} == 0)) || echo "fio, huge pages: $(speed "${huge[@]}")"
fi
drop_caches
"$estream" run -m "$pack" --tokens "$ids" --json --schedule stream "${shape[@]}" |
  awk '{ match($0, /"read_bytes":[0-9]+/); b = substr($0, RSTART + 13, RLENGTH - 13);
         match($0, /"io_s":[0-9.e+-]+/); s = substr($0, RSTART + 7, RLENGTH - 7);
         printf "while streaming %.0f MB/s over the union of read intervals\n", b / s / 1e6 }'

cgroup=/sys/fs/cgroup/memory/estream-bench
if mkdir "$cgroup" 2> /dev/null; then
  echo "== inside a memory cgroup of 0.6 GiB =="
  echo $((6 * 1024 * 1024 * 1024 / 10)) > "$cgroup/memory.limit_in_bytes"
  drop_caches
  (echo "$BASHPID" > "$cgroup/cgroup.procs"; exec "$estream" run -m "$pack" --tokens "$ids" --json "${shape[@]}") |
    awk '{ match($0, /"ttft_s":[0-9.e+-]+/); print "ttft_s", substr($0, RSTART + 9, RLENGTH - 9) }'
  echo "memory.max_usage_in_bytes $(cat "$cgroup/memory.max_usage_in_bytes")"
  echo "memory.failcnt $(cat "$cgroup/memory.failcnt")"
  rmdir "$cgroup"
fi
