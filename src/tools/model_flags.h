// SPDX-License-Identifier: Apache-2.0
// The flags of every verb that runs a model, and opening what they name.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "estream/engine.h"
#include "tools/outcome.h"
#include "tools/verb.h"

namespace estream {

struct ModelFlags {
  std::string model;
  std::string override_pre;
  std::string device = "cpu";
  std::string activations;  // empty: as the device likes
  uint32_t threads = 0;     // 0: all
  uint32_t max_tokens = 0;  // 0: as many as the input needs
  ExpertOptions experts;
  std::string memory;         // as given; memory_bytes once checked
  uint64_t memory_bytes = 0;  // 0: not limited
  std::string read_rate;      // as given; experts.max_read_rate once checked
  bool no_tune = false;
  bool verbose = false;
  bool no_pack_cache = false;
  std::string trace_file;
};

// The flags of what runs a model and how packs are read: what a profile is measured with.
void AddDeviceFlags(CLI::App& app, ModelFlags* flags);
// How experts stream, and the memory budget.
void AddStreamFlags(CLI::App& app, ModelFlags* flags);
// Those and the rest of what a verb takes that runs a model.
void AddModelFlags(CLI::App& app, ModelFlags* flags);

// Checks the flags that need no model, and takes the model from the positionals when -m did not name it.
Outcome CheckModelFlags(ModelFlags* flags, Positionals* positionals);

// Opens the model's file: a pack as it is; of a plain model file the cached pack, which is made first when there is
// none (saying so on standard error), or with --no-pack-cache the file itself.
Outcome OpenModel(const ModelFlags& flags, std::shared_ptr<const Model>* model);

// What the flags say, without profile and max_tokens.
EngineOptions OptionsOf(const ModelFlags& flags);

// Loads the model for inputs of `needed_tokens`, or of -c if given. A pack is streamed as its profile says; when it is
// large and has none of this machine, a quick one is measured first (saying so on standard error).
//
// Errors: a failure when the input does not fit -c or the model's context; usage for flags that the engine refuses.
Outcome OpenEngine(const ModelFlags& flags, std::shared_ptr<const Model> model, uint64_t needed_tokens,
                   std::unique_ptr<Engine>* engine);

// Writes --trace, when it was given.
Outcome WriteTrace(const ModelFlags& flags, const Engine& engine);

}  // namespace estream
