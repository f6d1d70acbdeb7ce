// SPDX-License-Identifier: Apache-2.0
// The engine: a model on a device, answering prompts by one causal pass each.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "estream/model.h"
#include "estream/status.h"

namespace estream {

struct EngineOptions {
  std::string device = "cpu";  // "cpu" or "reference"
  uint32_t threads = 0;        // 0: every processor this process may use
  uint32_t max_tokens = 0;     // longest prompt that Prefill will be given; 0: the model's context
};

// One prompt and the rows whose logits are wanted.
struct PrefillRequest {
  std::span<const int32_t> tokens;  // 1..max_tokens ids below the vocabulary's size
  std::span<const uint32_t> rows;   // ascending positions, no repeats; empty: the last one
};

// Receives the logits of one asked row, [vocabulary] f32, in ascending order of rows. An error ends the pass.
using LogitsSink = std::function<Status(uint32_t row, std::span<const float> logits)>;

// What one pass took.
struct PrefillReport {
  uint32_t tokens = 0;
  double ttft_s = 0;            // from the call to the first logits
  double total_s = 0;           // from the call to its return
  uint64_t routes = 0;          // expert evaluations of rows
  uint64_t active_experts = 0;  // (layer, expert) pairs with at least one route
};

// A registered amount of memory, for reports.
struct MemoryUse {
  std::string name;
  uint64_t bytes = 0;
};

class Engine {
 public:
  // Loads `model` onto the device and takes all memory that a pass of max_tokens needs.
  //
  // Errors: InvalidArgument for an unknown device or max_tokens beyond the context; Unsupported; OverBudget; Io;
  // Corrupt.
  static Result<std::unique_ptr<Engine>> Open(std::shared_ptr<const Model> model, const EngineOptions& options = {});
  virtual ~Engine() = default;

  virtual const Model& model() const = 0;
  virtual std::string device_description() const = 0;
  virtual uint32_t max_tokens() const = 0;

  // One causal pass over the prompt; logits of the asked rows go to `sink`.
  //
  // Threads: one caller at a time.
  // Errors:  InvalidArgument for an empty or too long prompt, an id outside the vocabulary, or rows out of order;
  //          Device (with the layer's number) when routing meets NaN; what `sink` returns. The engine stays usable.
  virtual Result<PrefillReport> Prefill(const PrefillRequest& request, const LogitsSink& sink) = 0;

  // What the engine holds, by name, largest first.
  virtual std::vector<MemoryUse> memory() const = 0;
};

}  // namespace estream
