// SPDX-License-Identifier: Apache-2.0
// llama.cpp on the CPU: a model loaded once, prompts of token ids timed one by one.
import { getLlama, LlamaLogLevel } from "node-llama-cpp";

// A prompt is computed `batch` tokens at a time, which is llama.cpp's ubatch (512 unless told otherwise). `verbose` shows
// llama.cpp's own messages.
export async function openLlama({ model: modelPath, threads, batch, tokens, verbose }) {
  const llama = await getLlama({
    gpu: false,
    build: "never",
    maxThreads: threads,
    logLevel: verbose ? LlamaLogLevel.debug : LlamaLogLevel.error,
  });
  const model = await llama.loadModel({ modelPath });
  // One position more than the prompt, since a context is never filled to its end.
  const context = await model.createContext({ contextSize: tokens + 1, batchSize: Math.min(batch, tokens), threads });
  const sequence = context.getSequence();
  return {
    description: `llama.cpp ${llama.llamaCppRelease.release}, ${llama.systemInfo.replace(/\s+/g, " ")}`,

    // One pass over `ids`, from an empty cache to the logits of the last: { seconds, top }, the most likely next id.
    async prefill(ids) {
      await sequence.clearHistory();
      const last = [ids.at(-1), { generateNext: { token: true, options: { temperature: 0 } } }];
      const begin = performance.now();
      const results = await sequence.controlledEvaluate([...ids.slice(0, -1), last]);
      return { seconds: (performance.now() - begin) / 1e3, top: results.at(-1).next.token };
    },

    close: () => llama.dispose(),
  };
}
