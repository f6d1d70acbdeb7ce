// SPDX-License-Identifier: Apache-2.0
// Tuning: measure a machine once, then choose how experts stream on it for any prompt length and memory budget.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "estream/engine.h"
#include "estream/model.h"
#include "estream/status.h"

namespace estream {

struct TuneOptions {
  // Prompt lengths of the expected work; one that comes twice counts twice. Those beyond the context are left out.
  std::vector<uint32_t> lengths = {16, 64, 256, 1024, 4096};
  // A rough profile within about three seconds: few points, the first layers only, nothing is verified, and `lengths`
  // is not used.
  bool quick = false;
  std::function<void(const char* phase, double share)> progress;  // may be empty
  const std::atomic<bool>* cancel = nullptr;                      // true: stop soon, nothing is written
};

// G, B and Q with what they need and take.
struct ExpertShape {
  uint32_t group_size = 0;
  uint32_t bank_count = 0;
  uint32_t queue_depth = 0;
  uint64_t arena_bytes = 0;
};

// A pass as the model of the pipeline says it will be.
struct PredictedPass {
  uint32_t tokens = 0;
  double ttft_s = 0;
  double compute_s = 0;  // T_exec
  double io_s = 0;       // T_io
  double stall_s = 0;
  double bubble_rate = 0;
};

struct TuneReport {
  std::string path;  // where the profile was written
  double seconds = 0;

  struct Read {
    uint32_t group_size = 0;
    uint32_t queue_depth = 0;
    double bytes_per_s = 0;
  };
  std::vector<Read> reads;
  struct Calibration {
    uint32_t tokens = 0;
    double ttft_s = 0;      // of the calibration request, with its own shape
    double exec_scale = 0;  // computing experts while reading, over alone
  };
  std::vector<Calibration> calibrations;
  uint32_t skipped_lengths = 0;  // beyond the model's context

  ExpertShape chosen;  // for `lengths`, in the default budget
  // One more request with `chosen`; nothing when quick.
  std::optional<PredictedPass> predicted;
  double measured_ttft_s = 0;
  double measured_bubble_rate = 0;
};

// Measures service times of `model`, a pack, on the device and storage that `options` name, and writes them as a
// profile beside the pack, or into the cache folder when that cannot be written. See docs/profile_format.md.
//
// Errors: InvalidArgument when the model is no pack; Cancelled; as Engine::Open and Engine::Prefill; Io.
Result<TuneReport> TuneModel(std::shared_ptr<const Model> model, const EngineOptions& options, const TuneOptions& tune);

// The profile of `model` for `options`: null when there is none, or none that was measured with this device, storage
// and pack; in that case `note` is one sentence about it.
//
// Errors: Corrupt or Unsupported for a broken file, naming it.
Result<std::shared_ptr<const TuningProfile>> LoadProfile(const Model& model, const EngineOptions& options,
                                                         std::string* note);

// The profiles in `file` for a model of these sizes, whatever they were measured on. Never empty.
//
// Errors: NotFound when there is none, naming what the file holds; as LoadProfile.
Result<std::vector<std::shared_ptr<const TuningProfile>>> LoadProfilesOf(const Model& model, const std::string& file);

// What a profile is of: "OLMoE-1B-7B" and how it came about.
std::string ProfileName(const TuningProfile& profile);
std::string ProfileNote(const TuningProfile& profile);

struct PlanReport {
  std::string schedule;
  ExpertShape chosen;
  std::vector<MemoryUse> memory;  // the arena among it, largest first
  uint64_t memory_bytes = 0;      // of all of it
  uint64_t budget_bytes = 0;      // 0: no limit known
  std::string budget_source;
  std::vector<PredictedPass> passes;  // by asked length; empty without a profile
  struct Alternative {
    ExpertShape shape;  // the best of its group size
    double mean_s = 0;  // over the lengths
  };
  std::vector<Alternative> alternatives;  // by group size; `chosen` among them; empty when nothing was chosen
};

// What Engine::Open would do with these options, and what a pass of each of `lengths` would take. Loads no weights.
//
// Errors: OverBudget with the least memory that would do and its largest parts; as Engine::Open.
Result<PlanReport> PlanModel(std::shared_ptr<const Model> model, const EngineOptions& options,
                             const std::vector<uint32_t>& lengths);

}  // namespace estream
