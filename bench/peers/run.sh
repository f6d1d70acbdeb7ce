#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Times EStream and llama.cpp in turns on the same model file, token ids and number of threads: medians of the time to
# the first logits, their ratio (above 1: EStream is faster), the machine's load average and the most likely next token.
# Threads of llama.cpp wait for each other by spinning, so anything else that runs slows it more than EStream: rows whose
# load is above the number of threads say little.
#
#   bench/peers/run.sh MODEL.gguf [LENGTHS...]        needs Node.js 20 and npm, which fetches llama.cpp's program once
#
# In the environment: REPEATS (5), THREADS (2), BATCH (512; tokens a batch of llama.cpp), BUILD (build/release),
# VERBOSE=1 for llama.cpp's messages. A model to time: build/release/estream-synth --model olmoe-1b-7b olmoe.gguf
set -euo pipefail
model=$(realpath "${1:?a model file in GGUF}")
shift
cd "$(dirname "$0")/../.."
estream=$(realpath "${BUILD:-build/release}/estream")
cd bench/peers

# The program is a package of its own a platform; those for other processors and for GPUs are left out.
version=$(node -p "require('./package.json').dependencies['node-llama-cpp']")
binaries=@node-llama-cpp/$(node -p "process.platform + '-' + process.arch")
if [[ ! -d node_modules/$binaries ]]; then
  npm install --omit=optional --ignore-scripts --no-save --no-package-lock --no-audit --no-fund --loglevel=error \
    "$binaries@$version" >&2
fi
exec node compare.mjs "$estream" "$model" "$@"
