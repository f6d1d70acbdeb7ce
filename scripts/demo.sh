#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Labels sample messages with the bundled model: demo.sh PATH/TO/estream.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
estream=$1
model=$here/models/tiny-olmoe
export ESTREAM_CACHE_DIR=$here/build/demo  # the packed model, not in the user's own cache

classify() {
  local task=$1
  shift
  "$estream" classify "$model/tiny-olmoe-q4_0.gguf" --template "$model/templates/$task.txt" -f "$model/demo/$task.txt" "$@"
}

echo
echo "Is it spam? Two labels, one forward pass a message."
classify spam --labels yes,no --names 'spam,not spam' --top 1
echo
echo "What does it ask for? Twenty labels, still one pass a message; the two likeliest are shown."
classify intent --top 2 --labels \
  balance,transfer,freeze,bill,fraud,recipe,calories,table,weather,alarm,timer,music,shopping,traffic,directions,flight,hotel,translate,definition,joke
echo
echo "Which topic? Labels of several tokens, compared by the likelihood of the whole label."
classify topic --top 2 --label-suffix '\n' --labels \
  'tire pressure,weather,exchange rate,report lost card,oil change how,interest rate,lost luggage'
echo
echo "The model: models/tiny-olmoe, 2.4 million parameters, 16 experts a layer. Its README has accuracy on held-out data."
