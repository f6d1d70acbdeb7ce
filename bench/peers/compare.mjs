// SPDX-License-Identifier: Apache-2.0
// EStream and llama.cpp in turns on one model and the same token ids: seconds to the first logits, and their ratio.
//
//   node compare.mjs ESTREAM MODEL [LENGTH...]        see run.sh
//
// Both run a prompt once unmeasured before the pass that counts; llama.cpp keeps its model loaded, every measurement of
// EStream is a process of its own.
import { execFileSync } from "node:child_process";
import { loadavg } from "node:os";
import { openLlama } from "./llama_cpp.mjs";

const [estream, model, ...lengths] = process.argv.slice(2);
const number = (name, otherwise) => Number(process.env[name] ?? otherwise);
const threads = number("THREADS", 2);
const repeats = number("REPEATS", 5);
const batch = number("BATCH", 512);

// Ids spread over the vocabulary, the same in every run.
function promptIds(count, vocabulary) {
  let state = 1;
  return Array.from({ length: count }, () => {
    state = (Math.imul(state, 69069) + 1) >>> 0;
    return state % vocabulary;
  });
}

function runEStream(ids) {
  const flags = ["--no-pack-cache", "--schedule", "resident", "--threads", threads, "--json", "--top", 1, "--repeat", 2];
  const report = JSON.parse(execFileSync(estream, ["run", "-m", model, ...flags, "--tokens", ids.join(",")]));
  return { seconds: report.ttft_s, top: report.top[0].id, device: report.device, activations: report.activations };
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

async function compare(llama, ids) {
  const ours = [], theirs = [];
  await llama.prefill(ids);
  for (let i = 0; i < repeats; ++i) {
    ours.push(runEStream(ids));
    theirs.push(await llama.prefill(ids));
  }
  const seconds = (runs) => runs.map((run) => run.seconds);
  const ratios = seconds(theirs).map((t, i) => t / ours[i].seconds);
  return {
    ours: median(seconds(ours)),
    theirs: median(seconds(theirs)),
    ratio: median(seconds(theirs)) / median(seconds(ours)),
    ratios: [Math.min(...ratios), Math.max(...ratios)],
    ratioOfLeast: Math.min(...seconds(theirs)) / Math.min(...seconds(ours)),
    top: ours[0].top === theirs[0].top ? `${ours[0].top}` : `${ours[0].top} and ${theirs[0].top}`,
  };
}

const { vocabulary } = JSON.parse(execFileSync(estream, ["inspect", "--json", model])).plan;
const counts = lengths.length > 0 ? lengths.map(Number) : [256, 1024];
const tokens = Math.max(...counts);
const llama = await openLlama({ model, threads, batch, tokens, verbose: process.env.VERBOSE === "1" });
const { device, activations } = runEStream(promptIds(1, vocabulary));
console.log(`EStream: ${device}, ${activations} activations, resident`);
console.log(`${llama.description}; batches of ${Math.min(batch, tokens)}`);
console.log(`${threads} threads each; medians of ${repeats}, in turns`);
console.log("tokens  EStream ms  llama.cpp ms  ratio  of pairs        of the least  load  most likely next id");
for (const count of counts) {
  const r = await compare(llama, promptIds(count, vocabulary));
  console.log(
    [
      String(count).padStart(6),
      (1e3 * r.ours).toFixed(1).padStart(10),
      (1e3 * r.theirs).toFixed(1).padStart(12),
      r.ratio.toFixed(2).padStart(5),
      r.ratios.map((x) => x.toFixed(2)).join(" to ").padEnd(14),
      r.ratioOfLeast.toFixed(2).padStart(12),
      loadavg()[0].toFixed(1).padStart(4),
      r.top,
    ].join("  "),
  );
}
await llama.close();
