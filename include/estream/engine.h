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

// Where experts live and how they are read. A pack streams; a plain model file is resident.
struct ExpertOptions {
  // "stream", "per-layer" (the paper's), "after-routing", "on-demand" or "resident"; empty: "stream" for a pack.
  // "naive", "layer-2", "layer-all" and "graph-per-expert" stream with a shape of their own, for comparison
  // (pipeline/schedule.h).
  std::string schedule;
  // 0: chosen from EngineOptions::profile, and without one 2, 6 and 2, with fewer where memory_bytes asks for it.
  uint32_t group_size = 0;       // G, experts a read
  uint32_t bank_count = 0;       // B, groups in memory at once
  uint32_t queue_depth = 0;      // Q, reads in flight
  std::string storage = "auto";  // "io_uring", "threads", or "auto": io_uring where the system allows it
  uint64_t max_read_rate = 0;    // bytes a second that experts are read at most; 0: no limit
  bool check_hashes = false;     // compare the stored hash of every record of a pack that is used
  bool sparse_reads = true;      // "stream": of a group with few routed experts read only these
  // Which groups are read before routes are known: "pack": in the order of the pack; "previous": those first that the
  // pass before had routes to.
  std::string early_order = "pack";
  // The engine will be asked again: when a pass ends, a stream begins to read what the next one needs first.
  bool keep_warm = false;
};

// Service times of a device and its storage for a model (estream/tune.h).
struct TuningProfile;

struct EngineOptions {
  std::string device = "cpu";  // "cpu" or "reference"
  // "q8": activations become int8 in blocks of 32 where they meet weights of a block format; "f32": weights become
  // floats. Empty: "q8" on the CPU, "f32" on the reference device, which has no other.
  std::string activations;
  uint32_t threads = 0;     // 0: every processor this process may use
  uint32_t max_tokens = 0;  // longest prompt that Prefill will be given; 0: the model's context
  ExpertOptions experts;
  std::shared_ptr<const TuningProfile> profile;  // or none
  // Most memory of the whole process. 0: no limit for what is needed anyway; an arena chosen by profile stays within
  // the control group's limit or available memory, and is the smallest within 1 % of the best time.
  uint64_t memory_bytes = 0;
  bool trace = false;  // record spans for Engine::TraceJson
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

  double compute_s = 0;       // T_exec: union of compute intervals
  double io_s = 0;            // T_io: union of read intervals; 0 when resident
  double stall_s = 0;         // the executor waited for experts
  uint64_t read_bytes = 0;    // of experts
  uint64_t wasted_bytes = 0;  // read early and not routed to
  uint64_t early_groups = 0;  // groups with routes that were in memory or on their way when the routes became known
  uint64_t later_groups = 0;  // groups with routes that were not
  // 1 - max(T_io, T_exec) / T_total: the share of the pass in which neither storage nor device was the limit.  (Fig. 6)
  double bubble_rate() const {
    const double busy = io_s > compute_s ? io_s : compute_s;
    return total_s > busy ? 1 - busy / total_s : 0;
  }
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
  // Errors: InvalidArgument for an unknown device, activations it does not have, or max_tokens beyond the context;
  // OverBudget when memory_bytes is too little, with the least that would do; Unsupported; Io; Corrupt.
  static Result<std::unique_ptr<Engine>> Open(std::shared_ptr<const Model> model, const EngineOptions& options = {});
  virtual ~Engine() = default;

  virtual const Model& model() const = 0;
  virtual std::string device_description() const = 0;
  virtual std::string activations() const = 0;  // "q8" or "f32"
  virtual uint32_t max_tokens() const = 0;

  // One causal pass over the prompt; logits of the asked rows go to `sink`.
  //
  // Threads: one caller at a time.
  // Errors:  InvalidArgument for an empty or too long prompt, an id outside the vocabulary, or rows out of order;
  //          Device (with the layer's number) when routing meets NaN; what `sink` returns. The engine stays usable.
  virtual Result<PrefillReport> Prefill(const PrefillRequest& request, const LogitsSink& sink) = 0;

  // What the engine holds, by name, largest first.
  virtual std::vector<MemoryUse> memory() const = 0;

  // How experts are brought: "stream, G=2 B=6 Q=2, io_uring, registered buffers, direct" or "resident".
  virtual std::string expert_description() const = 0;

  // What happened since Open as a Chrome/Perfetto trace; empty unless opened with `trace`.
  virtual std::string TraceJson() const = 0;
};

}  // namespace estream
